//! Text, bytes and patterns.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use regex::Regex;
use sha2::Digest;

use super::{Entry, bytes, elements, error, int, new_bytes, text};
use crate::bigquery::sql::error::SqlError;
use crate::bigquery::sql::{cast, json, text as shown};
use crate::bigquery::value::Value;

type Outcome = Result<Value, SqlError>;

/// The longest text that a function makes.
const LONGEST: usize = 10_000_000;

pub(super) const FUNCTIONS: &[Entry] = &[
    ("CONCAT", "STRING, STRING... -> STRING", |of| Ok(Value::from(of.iter().map(text).collect::<String>()))),
    ("CONCAT", "BYTES, BYTES... -> BYTES", |of| Ok(new_bytes(of.iter().map(bytes).collect::<Vec<_>>().concat()))),
    ("$concat", "ARRAY<T>, ARRAY<T> -> ARRAY<T>", |of| Ok(Value::array(of.iter().flat_map(elements).cloned()))),
    ("LOWER", "STRING -> STRING", |of| Ok(Value::from(text(&of[0]).to_lowercase()))),
    ("UPPER", "STRING -> STRING", |of| Ok(Value::from(text(&of[0]).to_uppercase()))),
    ("INITCAP", "STRING -> STRING", |of| Ok(Value::from(capitalised(text(&of[0]))))),
    ("LENGTH", "STRING -> INT64", |of| count(text(&of[0]).chars().count())),
    ("LENGTH", "BYTES -> INT64", |of| count(bytes(&of[0]).len())),
    ("CHAR_LENGTH", "STRING -> INT64", |of| count(text(&of[0]).chars().count())),
    ("CHARACTER_LENGTH", "STRING -> INT64", |of| count(text(&of[0]).chars().count())),
    ("BYTE_LENGTH", "STRING -> INT64", |of| count(text(&of[0]).len())),
    ("BYTE_LENGTH", "BYTES -> INT64", |of| count(bytes(&of[0]).len())),
    ("SUBSTR", "STRING, INT64, [INT64] -> STRING", substring),
    ("SUBSTRING", "STRING, INT64, [INT64] -> STRING", substring),
    ("LEFT", "STRING, INT64 -> STRING", |of| {
        let length = non_negative(&of[1], "LEFT")?;
        Ok(Value::from(text(&of[0]).chars().take(length).collect::<String>()))
    }),
    ("RIGHT", "STRING, INT64 -> STRING", |of| {
        let length = non_negative(&of[1], "RIGHT")?;
        let skip = text(&of[0]).chars().count().saturating_sub(length);
        Ok(Value::from(text(&of[0]).chars().skip(skip).collect::<String>()))
    }),
    ("TRIM", "STRING, [STRING] -> STRING", |of| Ok(Value::from(trim(of, true, true)))),
    ("LTRIM", "STRING, [STRING] -> STRING", |of| Ok(Value::from(trim(of, true, false)))),
    ("RTRIM", "STRING, [STRING] -> STRING", |of| Ok(Value::from(trim(of, false, true)))),
    ("REPLACE", "STRING, STRING, STRING -> STRING", |of| {
        let [from, to] = [text(&of[1]), text(&of[2])];
        Ok(Value::from(if from.is_empty() { text(&of[0]).to_owned() } else { text(&of[0]).replace(from, to) }))
    }),
    ("REVERSE", "STRING -> STRING", |of| Ok(Value::from(text(&of[0]).chars().rev().collect::<String>()))),
    ("REPEAT", "STRING, INT64 -> STRING", |of| {
        let times = non_negative(&of[1], "REPEAT")?;
        if text(&of[0]).len().saturating_mul(times) > LONGEST {
            return error("Output of REPEAT exceeds max allowed output size");
        }
        Ok(Value::from(text(&of[0]).repeat(times)))
    }),
    ("LPAD", "STRING, INT64, [STRING] -> STRING", |of| pad(of, "LPAD", true)),
    ("RPAD", "STRING, INT64, [STRING] -> STRING", |of| pad(of, "RPAD", false)),
    ("STARTS_WITH", "STRING, STRING -> BOOL", |of| Ok(Value::Bool(text(&of[0]).starts_with(text(&of[1]))))),
    ("ENDS_WITH", "STRING, STRING -> BOOL", |of| Ok(Value::Bool(text(&of[0]).ends_with(text(&of[1]))))),
    ("CONTAINS_SUBSTR", "STRING, STRING -> BOOL", |of| {
        Ok(Value::Bool(text(&of[0]).to_lowercase().contains(&text(&of[1]).to_lowercase())))
    }),
    ("STRPOS", "STRING, STRING -> INT64", |of| {
        let at = text(&of[0]).find(text(&of[1]));
        count(at.map_or(0, |at| text(&of[0])[..at].chars().count() + 1))
    }),
    ("SPLIT", "STRING, [STRING] -> ARRAY<STRING>", |of| {
        let separator = of.get(1).map_or(",", text);
        let parts: Vec<Value> = match separator {
            "" => text(&of[0]).chars().map(|next| Value::from(next.to_string())).collect(),
            separator => text(&of[0]).split(separator).map(Value::from).collect(),
        };
        Ok(Value::array(if parts.is_empty() { vec![Value::from("")] } else { parts }))
    }),
    ("ASCII", "STRING -> INT64", |of| count(text(&of[0]).bytes().next().unwrap_or(0).into())),
    ("CHR", "INT64 -> STRING", |of| {
        let character = u32::try_from(int(&of[0])).ok().and_then(char::from_u32);
        let invalid = || SqlError::query(format!("Invalid codepoint {}", int(&of[0])));
        character.map(|character| Value::from(character.to_string())).ok_or_else(invalid)
    }),
    ("TO_HEX", "BYTES -> STRING", |of| Ok(Value::from(hex(bytes(&of[0]))))),
    ("FROM_HEX", "STRING -> BYTES", |of| {
        let digits = text(&of[0]);
        let digits = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
        let pairs = (0..digits.len())
            .step_by(2)
            .map(|at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        let invalid =
            || SqlError::query(format!("Failed to decode invalid hexadecimal string due to character: {digits}"));
        pairs.collect::<Option<Vec<u8>>>().map(new_bytes).ok_or_else(invalid)
    }),
    ("TO_BASE64", "BYTES -> STRING", |of| Ok(Value::from(BASE64_STANDARD.encode(bytes(&of[0]))))),
    ("FROM_BASE64", "STRING -> BYTES", |of| {
        let decoded = BASE64_STANDARD.decode(text(&of[0]));
        decoded.map(new_bytes).map_err(|_| SqlError::query("Failed to decode invalid base64 string"))
    }),
    ("SHA256", "STRING -> BYTES", |of| Ok(new_bytes(sha2::Sha256::digest(text(&of[0])).to_vec()))),
    ("SHA256", "BYTES -> BYTES", |of| Ok(new_bytes(sha2::Sha256::digest(bytes(&of[0])).to_vec()))),
    ("SHA512", "STRING -> BYTES", |of| Ok(new_bytes(sha2::Sha512::digest(text(&of[0])).to_vec()))),
    ("$like", "STRING, STRING -> BOOL", |of| like(text(&of[0]), text(&of[1]))),
    ("REGEXP_CONTAINS", "STRING, STRING -> BOOL", |of| {
        with_regex(text(&of[1]), |regex| Ok(Value::Bool(regex.is_match(text(&of[0])))))
    }),
    ("REGEXP_EXTRACT", "STRING, STRING -> STRING", extract),
    ("REGEXP_SUBSTR", "STRING, STRING -> STRING", extract),
    ("REGEXP_EXTRACT_ALL", "STRING, STRING -> ARRAY<STRING>", |of| {
        with_regex(text(&of[1]), |regex| {
            let group = capturing(regex)?;
            let all = regex.captures_iter(text(&of[0]));
            Ok(Value::array(
                all.map(|captures| captures.get(group).map_or(Value::from(""), |found| Value::from(found.as_str()))),
            ))
        })
    }),
    ("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING", |of| {
        let replacement = replacement(text(&of[2]))?;
        with_regex(text(&of[1]), |regex| {
            Ok(Value::from(regex.replace_all(text(&of[0]), replacement.as_str()).into_owned()))
        })
    }),
    ("REGEXP_INSTR", "STRING, STRING -> INT64", |of| {
        with_regex(text(&of[1]), |regex| {
            let group = capturing(regex)?;
            let found = regex.captures(text(&of[0])).and_then(|captures| captures.get(group));
            count(found.map_or(0, |found| text(&of[0])[..found.start()].chars().count() + 1))
        })
    }),
    ("JSON_VALUE", "STRING, [STRING] -> STRING", json::scalar_of_text),
    ("JSON_VALUE", "JSON, [STRING] -> STRING", json::scalar),
    ("JSON_EXTRACT_SCALAR", "STRING, [STRING] -> STRING", json::scalar_of_text),
    ("JSON_EXTRACT_SCALAR", "JSON, [STRING] -> STRING", json::scalar),
    ("JSON_QUERY", "STRING, [STRING] -> STRING", json::part_of_text),
    ("JSON_QUERY", "JSON, [STRING] -> JSON", json::part),
    ("JSON_EXTRACT", "STRING, [STRING] -> STRING", json::part_of_text),
    ("JSON_EXTRACT", "JSON, [STRING] -> JSON", json::part),
    ("JSON_QUERY_ARRAY", "STRING, [STRING] -> ARRAY<STRING>", json::parts_of_text),
    ("JSON_QUERY_ARRAY", "JSON, [STRING] -> ARRAY<JSON>", json::parts),
    ("JSON_EXTRACT_ARRAY", "STRING, [STRING] -> ARRAY<STRING>", json::parts_of_text),
    ("JSON_VALUE_ARRAY", "STRING, [STRING] -> ARRAY<STRING>", json::scalars_of_text),
    ("JSON_TYPE", "JSON -> STRING", json::type_name),
    ("PARSE_JSON", "STRING -> JSON", |of| Ok(Value::Json(json::parse(text(&of[0]))?))),
    ("$json_text", "JSON -> STRING", |of| Ok(Value::from(shown::of_value(&of[0])))),
    ("$json_field", "JSON, STRING -> JSON", json::field),
    ("$json_element", "JSON, INT64 -> JSON", json::element),
    ("STRING", "JSON -> STRING", |of| json::typed(of, "string", |json| json.as_str().map(Value::from))),
    ("INT64", "JSON -> INT64", |of| json::typed(of, "int64", |json| json.as_i64().map(Value::Int64))),
    ("FLOAT64", "JSON -> FLOAT64", |of| json::typed(of, "double", |json| json.as_f64().map(Value::Float64))),
    ("BOOL", "JSON -> BOOL", |of| json::typed(of, "bool", |json| json.as_bool().map(Value::Bool))),
];

pub(super) const NULLABLE: &[Entry] = &[("$format", "STRING, T... -> STRING", format)];

fn count(number: usize) -> Outcome {
    Ok(Value::Int64(number as i64))
}

fn non_negative(value: &Value, name: &str) -> Result<usize, SqlError> {
    usize::try_from(int(value)).map_err(|_| SqlError::query(format!("Second argument in {name}() cannot be negative")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Words begin with a capital letter; what else they have is small.
fn capitalised(text: &str) -> String {
    let mut start = true;
    let letters = text.chars().flat_map(|next| {
        let letters: String = if start { next.to_uppercase().collect() } else { next.to_lowercase().collect() };
        start = next.is_whitespace() || "[](){}/|<>!?@\"^#$&~_,.:;*%+-".contains(next);
        letters.chars().collect::<Vec<_>>()
    });
    letters.collect()
}

/// Counts from 1; from the end when the position is negative.
fn substring(of: &[Value]) -> Outcome {
    let length = text(&of[0]).chars().count() as i64;
    let position = int(&of[1]);
    let start = if position < 0 { (length + position).max(0) } else { (position - 1).max(0) };
    let wanted = of.get(2).map_or(i64::MAX, int);
    if wanted < 0 {
        return error("Third argument in SUBSTR() cannot be negative");
    }
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    Ok(Value::from(text(&of[0]).chars().skip(start as usize).take(wanted).collect::<String>()))
}

fn trim(of: &[Value], start: bool, end: bool) -> String {
    let drops = |next: char| of.get(1).map_or_else(|| next.is_whitespace(), |set| text(set).contains(next));
    let trimmed = if start { text(&of[0]).trim_start_matches(drops) } else { text(&of[0]) };
    if end { trimmed.trim_end_matches(drops) } else { trimmed }.to_owned()
}

fn pad(of: &[Value], name: &str, left: bool) -> Outcome {
    let wanted = non_negative(&of[1], name)?;
    let filler = of.get(2).map_or(" ", text);
    if filler.is_empty() {
        return error(format!("Third argument in {name}() cannot be empty"));
    }
    if wanted > LONGEST {
        return error(format!("Output of {name} exceeds max allowed output size"));
    }
    let kept: String = text(&of[0]).chars().take(wanted).collect();
    let missing = wanted - kept.chars().count();
    let padding: String = filler.chars().cycle().take(missing).collect();
    Ok(Value::from(if left { padding + &kept } else { kept + &padding }))
}

thread_local! {
    /// Expressions that were used on this thread: a query uses one for each row.
    static REGEXES: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// How many compiled expressions a thread keeps.
const KEPT: usize = 100;

fn with_regex(pattern: &str, work: impl FnOnce(&Regex) -> Outcome) -> Outcome {
    REGEXES.with_borrow_mut(|known| {
        if !known.contains_key(pattern) {
            let invalid = |_| SqlError::query(format!("Cannot parse regular expression: {pattern}"));
            let regex = Regex::new(pattern).map_err(invalid)?;
            if known.len() == KEPT {
                known.clear();
            }
            known.insert(pattern.to_owned(), regex);
        }
        work(&known[pattern])
    })
}

/// The group that is extracted: the only one, or all that matches.
fn capturing(regex: &Regex) -> Result<usize, SqlError> {
    match regex.captures_len() {
        groups @ 1..=2 => Ok(groups - 1),
        _ => error("Regular expressions passed into extraction functions must not have more than 1 capturing group"),
    }
}

fn extract(of: &[Value]) -> Outcome {
    with_regex(text(&of[1]), |regex| {
        let group = capturing(regex)?;
        let found = regex.captures(text(&of[0]));
        Ok(found.map(|captures| captures.get(group).map_or("", |found| found.as_str())).into())
    })
}

/// `\1` becomes the library's `${1}`.
fn replacement(text: &str) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '$' => out.push_str("$$"),
            '\\' => match rest.next() {
                Some('\\') => out.push('\\'),
                Some(digit) if digit.is_ascii_digit() => _ = write!(out, "${{{digit}}}"),
                _ => return error("Invalid REGEXP_REPLACE pattern: a backslash is followed by a digit or a backslash"),
            },
            next => out.push(next),
        }
    }
    Ok(out)
}

fn like(value: &str, pattern: &str) -> Outcome {
    let mut regex = String::from("(?s)^");
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '\\' => match rest.next() {
                Some(escaped) => regex.push_str(&regex::escape(&escaped.to_string())),
                None => return error("LIKE pattern ends with a backslash which is not escaped"),
            },
            next => regex.push_str(&regex::escape(&next.to_string())),
        }
    }
    with_regex(&(regex + "$"), |regex| Ok(Value::Bool(regex.is_match(value))))
}

/// `FORMAT`: the elements `%d %i %u %x %X %o %f %F %e %g %s %t %T %%` with flags, width and precision.
fn format(of: &[Value]) -> Outcome {
    if of[0].is_null() {
        return Ok(Value::Null);
    }
    let mut values = of[1..].iter();
    let mut out = String::new();
    let mut rest = text(&of[0]).chars().peekable();
    while let Some(next) = rest.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = rest.next_if(|next| "-+ 0#'".contains(*next)) {
            flags.push(flag);
        }
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let digits: String = std::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).collect();
            digits.parse::<usize>().ok().map(|number| number.min(LONGEST))
        };
        let width = number(&mut rest).unwrap_or(0);
        let precision = rest.next_if_eq(&'.').map(|_| number(&mut rest).unwrap_or(0));
        let element = rest.next().unwrap_or(' ');
        if element == '%' {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or_else(|| SqlError::query("Too few arguments to FORMAT"))?;
        if value.is_null() && !matches!(element, 't' | 'T') {
            return Ok(Value::Null);
        }
        let body = format_one(element, precision, value)?;
        let numeric = !matches!(element, 's' | 't' | 'T');
        let body = if flags.contains('\'') { grouped(&body) } else { body };
        let sign = ["+", " "].into_iter().find(|sign| flags.contains(*sign) && numeric && !body.starts_with('-'));
        let body = sign.unwrap_or_default().to_owned() + &body;
        let missing = width.saturating_sub(body.chars().count());
        if flags.contains('-') {
            out += &(body + &" ".repeat(missing));
        } else if flags.contains('0') && numeric {
            let digits = body.trim_start_matches(['-', '+', ' ']);
            out += &format!("{}{}{digits}", &body[..body.len() - digits.len()], "0".repeat(missing));
        } else {
            out += &(" ".repeat(missing) + &body);
        }
    }
    if values.next().is_some() {
        return error("Too many arguments to FORMAT");
    }
    Ok(Value::from(out))
}

/// Thousands get commas.
fn grouped(text: &str) -> String {
    let digits = text
        .trim_start_matches('-')
        .find(|next: char| !next.is_ascii_digit())
        .unwrap_or(text.trim_start_matches('-').len());
    let start = text.len() - text.trim_start_matches('-').len();
    let (whole, rest) = text[start..].split_at(digits);
    let with_commas: String = whole
        .char_indices()
        .flat_map(|(at, digit)| {
            let comma = at > 0 && (whole.len() - at) % 3 == 0;
            comma.then_some(',').into_iter().chain([digit])
        })
        .collect();
    format!("{}{with_commas}{rest}", &text[..start])
}

fn format_one(element: char, precision: Option<usize>, value: &Value) -> Result<String, SqlError> {
    let float = || cast::to_float(value);
    Ok(match (element, value) {
        ('d' | 'i' | 'u', Value::Int64(number)) => number.to_string(),
        ('x', Value::Int64(number)) => format!("{number:x}"),
        ('X', Value::Int64(number)) => format!("{number:X}"),
        ('o', Value::Int64(number)) => format!("{number:o}"),
        ('f' | 'F', Value::Float64(_) | Value::Numeric(_) | Value::BigNumeric(_)) => {
            format!("{:.*}", precision.unwrap_or(6), float())
        }
        ('e' | 'E', Value::Float64(_)) => {
            let text = format!("{:.*e}", precision.unwrap_or(6), float());
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{mantissa}{element}{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        ('g', Value::Float64(_)) if precision.is_none() => shown::of_float_digits(float(), 6),
        ('s', Value::String(text)) => text.chars().take(precision.unwrap_or(usize::MAX)).collect(),
        ('t', value) => printed(value, false),
        ('T', value) => printed(value, true),
        (element, value) => {
            return Err(SqlError::unsupported(format_args!("FORMAT with %{element} for {}", shown::of_value(value))));
        }
    })
}

/// A value for people, or as a literal.
fn printed(value: &Value, literal: bool) -> String {
    let quoted = |prefix: &str, text: &str| {
        if !literal {
            return text.to_owned();
        }
        let space = if prefix.is_empty() { "" } else { " " };
        format!("{prefix}{space}\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    };
    let list = |values: &[Value]| values.iter().map(|value| printed(value, literal)).collect::<Vec<_>>().join(", ");
    let text = shown::of_value(value);
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Float64(number) if number.is_finite() && !text.contains(['.', 'e']) => format!("{text}.0"),
        Value::String(_) => quoted("", &text),
        Value::Date(_) => quoted("DATE", &text),
        Value::DateTime(_) => quoted("DATETIME", &text),
        Value::Time(_) => quoted("TIME", &text),
        Value::Timestamp(_) => quoted("TIMESTAMP", &text),
        Value::Numeric(_) => quoted("NUMERIC", &text),
        Value::BigNumeric(_) => quoted("BIGNUMERIC", &text),
        Value::Struct(fields) => format!("({})", list(fields)),
        Value::Array(elements) => format!("[{}]", list(elements)),
        _ => text,
    }
}
