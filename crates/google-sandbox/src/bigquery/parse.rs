//! Reads values from JSON: query parameters (always texts) and the rows of a load job.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bigdecimal::BigDecimal;
use jiff::civil::DateTime;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value as Json;

use super::schema::{Field, Type};
use super::value::{Interval, Value};
use crate::clock::{MICROS, day_number};

/// The value of a query parameter: `{"value"}`, `{"arrayValues"}`, `{"structValues"}` or `{"rangeValue"}`. Without any of
/// them it is null.
///
/// # Errors
/// Says what isn't a value of the type.
pub(crate) fn parameter(kind: &Type, json: &Json) -> Result<Value, String> {
    match kind {
        Type::Array(element) => {
            let elements = json["arrayValues"].as_array().map(Vec::as_slice).unwrap_or_default();
            Ok(Value::array(elements.iter().map(|json| parameter(element, json)).collect::<Result<Vec<_>, _>>()?))
        }
        Type::Struct(fields) => {
            let values = fields.iter().map(|field| parameter(&field.kind, &json["structValues"][&*field.name]));
            Ok(Value::record(values.collect::<Result<Vec<_>, _>>()?))
        }
        Type::Range(element) => {
            let bound = |key: &str| match &json["rangeValue"][key] {
                Json::Null => Ok(Value::Null),
                bound => parameter(element, bound),
            };
            Ok(Value::Range(Arc::new([bound("start")?, bound("end")?])))
        }
        scalar => match &json["value"] {
            Json::Null => Ok(Value::Null),
            text => self::scalar(scalar, text),
        },
    }
}

/// A field of a row in a load job.
///
/// # Errors
/// Says what isn't a value of the field's type.
pub(crate) fn field(field: &Field, json: &Json) -> Result<Value, String> {
    match (&field.kind, json) {
        (Type::Array(_), Json::Null) => Ok(Value::array([])),
        (Type::Array(element), Json::Array(elements)) => {
            let element = Field::new(&field.name, (**element).clone());
            let values = elements.iter().map(|json| match self::field(&element, json)? {
                Value::Null => Err(format!("Only optional fields can be set to NULL. Field: {}", field.name)),
                value => Ok(value),
            });
            Ok(Value::array(values.collect::<Result<Vec<_>, String>>()?))
        }
        (Type::Array(_), _) => Err(format!("Repeated field must be imported as a JSON array. Field: {}.", field.name)),
        (_, Json::Array(_)) if field.kind != Type::Json => {
            Err(format!("Array specified for non-repeated field: {}.", field.name))
        }
        (_, Json::Null) if field.required => Err(format!("Missing required field: {}.", field.name)),
        (_, Json::Null) => Ok(Value::Null),
        (Type::Struct(fields), Json::Object(map)) => {
            if let Some(key) = map.keys().find(|key| !fields.iter().any(|f| f.name.eq_ignore_ascii_case(key))) {
                return Err(format!("No such field: {}.{key}.", field.name));
            }
            let values = fields.iter().map(|inner| {
                let json = map.iter().find(|(key, _)| inner.name.eq_ignore_ascii_case(key));
                self::field(inner, json.map_or(&Json::Null, |(_, json)| json))
            });
            Ok(Value::record(values.collect::<Result<Vec<_>, _>>()?))
        }
        (Type::Range(element), Json::Object(map)) => {
            let bound = |key: &str| match map.get(key) {
                None | Some(Json::Null) => Ok(Value::Null),
                Some(json) => scalar(element, json),
            };
            Ok(Value::Range(Arc::new([bound("start")?, bound("end")?])))
        }
        (Type::Json, json) => Ok(Value::Json(Arc::new(json.clone()))),
        (kind, json) => scalar(kind, json).map_err(|why| format!("{why} Field: {}; Value: {json}", field.name)),
    }
}

fn scalar(kind: &Type, json: &Json) -> Result<Value, String> {
    let text = match json {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        Json::Bool(truth) => truth.to_string(),
        _ => return Err(format!("Could not parse {json} as {kind}.")),
    };
    let bad = || format!("Could not parse '{text}' as {kind}.");
    let decimal = || text.parse::<BigDecimal>().map(Arc::new).map_err(|_| bad());
    let number = json.is_number();
    match kind {
        Type::Bool => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "1" => Ok(Value::Bool(true)),
            "false" | "f" | "no" | "n" | "0" => Ok(Value::Bool(false)),
            _ => Err(bad()),
        },
        // A number in JSON is a float on its way: beyond 2^53 it loses digits, a text doesn't.
        Type::Int64 if number => {
            let exact: i64 = text.parse().map_err(|_| bad())?;
            Ok(Value::Int64(if exact.unsigned_abs() > 1 << 53 { exact as f64 as i64 } else { exact }))
        }
        Type::Int64 => text.parse().map(Value::Int64).map_err(|_| bad()),
        Type::Float64 => float(&text).map(Value::Float64).ok_or_else(bad),
        Type::Numeric => Ok(Value::Numeric(decimal()?)),
        Type::BigNumeric => Ok(Value::BigNumeric(decimal()?)),
        Type::String => Ok(Value::from(text)),
        Type::Bytes => STANDARD.decode(&text).map(|bytes| Value::Bytes(bytes.into())).map_err(|_| bad()),
        Type::Date if !number => text.parse().map(|date| Value::Date(day_number(date))).map_err(|_| bad()),
        Type::DateTime if !number => datetime(&text).map(Value::DateTime).ok_or_else(bad),
        Type::Time if !number => {
            let time: jiff::civil::Time = text.parse().map_err(|_| bad())?;
            let seconds = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
            Ok(Value::Time(seconds * MICROS + i64::from(time.subsec_nanosecond()) / 1_000))
        }
        Type::Timestamp => timestamp(&text, number).map(Value::Timestamp).ok_or_else(bad),
        Type::Geography => Ok(Value::Geography(text.into())),
        Type::Json => serde_json::from_str(&text).map(|json| Value::Json(Arc::new(json))).map_err(|_| bad()),
        Type::Interval => interval(&text).map(Value::Interval).ok_or_else(bad),
        _ => Err(bad()),
    }
}

fn float(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "+inf" | "infinity" | "+infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn datetime(text: &str) -> Option<i64> {
    // A date alone is its midnight; a zone makes it something else than a DATETIME.
    let text = text.replacen(' ', "T", 1);
    if text.len() > 10 && (text.ends_with('Z') || text[10..].contains(['+', '-'])) {
        return None;
    }
    let parsed: DateTime = text.parse().ok()?;
    micros_of(TimeZone::UTC.to_timestamp(parsed).ok()?)
}

fn micros_of(time: Timestamp) -> Option<i64> {
    Some(time.as_microsecond())
}

/// Seconds since 1970 (as a number), or date and time with a zone; UTC when there is none.
fn timestamp(text: &str, number: bool) -> Option<i64> {
    if number || text.parse::<f64>().is_ok() {
        let seconds: BigDecimal = text.parse().ok()?;
        let micros = (seconds * BigDecimal::from(MICROS)).with_scale(0).to_string();
        return micros.parse().ok();
    }
    let text = text.trim().trim_end_matches(" UTC").replacen(' ', "T", 1);
    let text = text.strip_suffix("+00").map_or(text.clone(), |start| format!("{start}+00:00"));
    match text.parse::<Timestamp>() {
        Ok(time) => micros_of(time),
        Err(_) => datetime(&text),
    }
}

/// `Y-M D H:M:S.F`.
fn interval(text: &str) -> Option<Interval> {
    let mut parts = text.split(' ');
    let (months, days, time) = (parts.next()?, parts.next()?, parts.next()?);
    let signed = |text: &str| -> (i64, String) {
        text.strip_prefix('-').map_or((1, text.to_owned()), |rest| (-1, rest.to_owned()))
    };
    let (sign, months) = signed(months);
    let (years, months) = months.split_once('-')?;
    let months = sign * (years.parse::<i64>().ok()? * 12 + months.parse::<i64>().ok()?);
    let (sign, time) = signed(time);
    let mut clock = time.split(':');
    let (hours, minutes, seconds) = (clock.next()?, clock.next()?, clock.next()?);
    let seconds: BigDecimal = seconds.parse().ok()?;
    let micros: i64 = (seconds * BigDecimal::from(MICROS)).with_scale(0).to_string().parse().ok()?;
    let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
    Some(Interval { months, days: days.parse().ok()?, micros: sign * (minutes * 60 * MICROS + micros) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: Type, json: Json) -> Result<Value, String> {
        field(&Field::new("f", kind), &json)
    }

    #[test]
    fn times() {
        let micros = 1_790_339_696_789_012;
        for text in
            ["2026-09-25T12:34:56.789012Z", "2026-09-25 12:34:56.789012 UTC", "2026-09-25 14:34:56.789012+02:00"]
        {
            assert_eq!(read(Type::Timestamp, json!(text)), Ok(Value::Timestamp(micros)), "{text}");
        }
        assert_eq!(read(Type::Timestamp, json!(1.5)), Ok(Value::Timestamp(1_500_000)));
        assert_eq!(read(Type::DateTime, json!("2026-09-25T12:34:56.789012")), Ok(Value::DateTime(micros)));
        assert!(read(Type::DateTime, json!("2026-09-25T12:34:56Z")).is_err());
        assert_eq!(read(Type::Time, json!("00:00:01.5")), Ok(Value::Time(1_500_000)));
        let interval = Interval { months: -14, days: 3, micros: -1 };
        assert_eq!(read(Type::Interval, json!("-1-2 3 -0:0:0.000001")), Ok(Value::Interval(interval)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (kind, json) in [
            (Type::Int64, json!("1.5")),
            (Type::Int64, json!("9223372036854775808")),
            (Type::Bool, json!("maybe")),
            (Type::Date, json!("2026-02-30")),
            (Type::String, json!({})),
            (Type::String, json!(["x"])),
            (Type::Int64.array(), json!(1)),
            (Type::Int64.array(), json!([null])),
        ] {
            assert!(read(kind.clone(), json.clone()).is_err(), "{kind} {json}");
        }
        assert_eq!(read(Type::Int64, json!("9007199254740993")), Ok(Value::Int64(9_007_199_254_740_993)));
        assert_eq!(read(Type::Int64, json!(9_007_199_254_740_993_i64)), Ok(Value::Int64(9_007_199_254_740_992)));
        assert_eq!(read(Type::Float64, json!("Infinity")), Ok(Value::Float64(f64::INFINITY)));
        assert_eq!(read(Type::Int64.array(), json!(null)), Ok(Value::array([])));
    }
}
