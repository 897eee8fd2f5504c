//! Numbers.

use bigdecimal::{BigDecimal, RoundingMode, Zero};

use super::{Entry, error, int};
use crate::bigquery::schema::Type;
use crate::bigquery::sql::cast::{decimal, to_float};
use crate::bigquery::sql::error::SqlError;
use crate::bigquery::sql::{compare, text};
use crate::bigquery::value::Value;

type Outcome = Result<Value, SqlError>;

pub(super) const FUNCTIONS: &[Entry] = &[
    ("$add", "INT64, INT64 -> INT64", |of| int_operation(of, "+", i64::checked_add)),
    ("$add", "NUMERIC, NUMERIC -> NUMERIC", |of| decimal_operation(of, |left, right| left + right)),
    ("$add", "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC", |of| decimal_operation(of, |left, right| left + right)),
    ("$add", "FLOAT64, FLOAT64 -> FLOAT64", |of| float_operation(of, "+", |left, right| left + right)),
    ("$subtract", "INT64, INT64 -> INT64", |of| int_operation(of, "-", i64::checked_sub)),
    ("$subtract", "NUMERIC, NUMERIC -> NUMERIC", |of| decimal_operation(of, |left, right| left - right)),
    ("$subtract", "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC", |of| decimal_operation(of, |left, right| left - right)),
    ("$subtract", "FLOAT64, FLOAT64 -> FLOAT64", |of| float_operation(of, "-", |left, right| left - right)),
    ("$multiply", "INT64, INT64 -> INT64", |of| int_operation(of, "*", i64::checked_mul)),
    ("$multiply", "NUMERIC, NUMERIC -> NUMERIC", |of| decimal_operation(of, |left, right| left * right)),
    ("$multiply", "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC", |of| decimal_operation(of, |left, right| left * right)),
    ("$multiply", "FLOAT64, FLOAT64 -> FLOAT64", |of| float_operation(of, "*", |left, right| left * right)),
    ("$divide", "NUMERIC, NUMERIC -> NUMERIC", |of| decimal_division(of)),
    ("$divide", "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC", |of| decimal_division(of)),
    ("$divide", "FLOAT64, FLOAT64 -> FLOAT64", |of| divide(of)),
    ("$minus", "INT64 -> INT64", |of| {
        int(&of[0])
            .checked_neg()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::query(format!("int64 overflow: -({})", int(&of[0]))))
    }),
    ("$minus", "NUMERIC -> NUMERIC", |of| one_decimal(of, |number| -number)),
    ("$minus", "BIGNUMERIC -> BIGNUMERIC", |of| one_decimal(of, |number| -number)),
    ("$minus", "FLOAT64 -> FLOAT64", |of| float(-to_float(&of[0]))),
    ("$bitand", "INT64, INT64 -> INT64", |of| Ok(Value::Int64(int(&of[0]) & int(&of[1])))),
    ("$bitor", "INT64, INT64 -> INT64", |of| Ok(Value::Int64(int(&of[0]) | int(&of[1])))),
    ("$bitxor", "INT64, INT64 -> INT64", |of| Ok(Value::Int64(int(&of[0]) ^ int(&of[1])))),
    ("$bitnot", "INT64 -> INT64", |of| Ok(Value::Int64(!int(&of[0])))),
    ("DIV", "INT64, INT64 -> INT64", |of| int_division(of, i64::checked_div)),
    ("MOD", "INT64, INT64 -> INT64", |of| int_division(of, i64::checked_rem)),
    ("SAFE_DIVIDE", "NUMERIC, NUMERIC -> NUMERIC", |of| or_null(decimal_division(of))),
    ("SAFE_DIVIDE", "FLOAT64, FLOAT64 -> FLOAT64", |of| or_null(divide(of))),
    ("SAFE_ADD", "INT64, INT64 -> INT64", |of| or_null(int_operation(of, "+", i64::checked_add))),
    ("SAFE_ADD", "FLOAT64, FLOAT64 -> FLOAT64", |of| or_null(float_operation(of, "+", |left, right| left + right))),
    ("SAFE_SUBTRACT", "INT64, INT64 -> INT64", |of| or_null(int_operation(of, "-", i64::checked_sub))),
    ("SAFE_SUBTRACT", "FLOAT64, FLOAT64 -> FLOAT64", |of| {
        or_null(float_operation(of, "-", |left, right| left - right))
    }),
    ("SAFE_MULTIPLY", "INT64, INT64 -> INT64", |of| or_null(int_operation(of, "*", i64::checked_mul))),
    ("SAFE_MULTIPLY", "FLOAT64, FLOAT64 -> FLOAT64", |of| {
        or_null(float_operation(of, "*", |left, right| left * right))
    }),
    ("SAFE_NEGATE", "INT64 -> INT64", |of| Ok(int(&of[0]).checked_neg().into())),
    ("IEEE_DIVIDE", "FLOAT64, FLOAT64 -> FLOAT64", |of| float(to_float(&of[0]) / to_float(&of[1]))),
    ("ABS", "INT64 -> INT64", |of| {
        int(&of[0])
            .checked_abs()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::query(format!("int64 overflow: ABS({})", int(&of[0]))))
    }),
    ("ABS", "NUMERIC -> NUMERIC", |of| one_decimal(of, |number| number.abs())),
    ("ABS", "BIGNUMERIC -> BIGNUMERIC", |of| one_decimal(of, |number| number.abs())),
    ("ABS", "FLOAT64 -> FLOAT64", |of| float(to_float(&of[0]).abs())),
    ("SIGN", "INT64 -> INT64", |of| Ok(Value::Int64(int(&of[0]).signum()))),
    ("SIGN", "FLOAT64 -> FLOAT64", |of| {
        let number = to_float(&of[0]);
        float(if number == 0.0 || number.is_nan() { number } else { number.signum() })
    }),
    ("ROUND", "FLOAT64, [INT64] -> FLOAT64", |of| scaled(of, f64::round)),
    ("ROUND", "NUMERIC, [INT64] -> NUMERIC", |of| scaled_decimal(of, RoundingMode::HalfUp)),
    ("ROUND", "BIGNUMERIC, [INT64] -> BIGNUMERIC", |of| scaled_decimal(of, RoundingMode::HalfUp)),
    ("TRUNC", "FLOAT64, [INT64] -> FLOAT64", |of| scaled(of, f64::trunc)),
    ("TRUNC", "NUMERIC, [INT64] -> NUMERIC", |of| scaled_decimal(of, RoundingMode::Down)),
    ("TRUNC", "BIGNUMERIC, [INT64] -> BIGNUMERIC", |of| scaled_decimal(of, RoundingMode::Down)),
    ("CEIL", "FLOAT64 -> FLOAT64", |of| float(to_float(&of[0]).ceil())),
    ("CEIL", "NUMERIC -> NUMERIC", |of| scaled_decimal(of, RoundingMode::Ceiling)),
    ("CEIL", "BIGNUMERIC -> BIGNUMERIC", |of| scaled_decimal(of, RoundingMode::Ceiling)),
    ("FLOOR", "FLOAT64 -> FLOAT64", |of| float(to_float(&of[0]).floor())),
    ("FLOOR", "NUMERIC -> NUMERIC", |of| scaled_decimal(of, RoundingMode::Floor)),
    ("FLOOR", "BIGNUMERIC -> BIGNUMERIC", |of| scaled_decimal(of, RoundingMode::Floor)),
    ("SQRT", "FLOAT64 -> FLOAT64", |of| finite("SQRT", of, f64::sqrt)),
    ("POW", "FLOAT64, FLOAT64 -> FLOAT64", |of| power(of)),
    ("POWER", "FLOAT64, FLOAT64 -> FLOAT64", |of| power(of)),
    ("EXP", "FLOAT64 -> FLOAT64", |of| finite("EXP", of, f64::exp)),
    ("LN", "FLOAT64 -> FLOAT64", |of| finite("LN", of, f64::ln)),
    ("LOG10", "FLOAT64 -> FLOAT64", |of| finite("LOG10", of, f64::log10)),
    ("LOG", "FLOAT64, [FLOAT64] -> FLOAT64", |of| {
        finite("LOG", of, |number| of.get(1).map_or_else(|| number.ln(), |base| number.ln() / to_float(base).ln()))
    }),
    ("IS_NAN", "FLOAT64 -> BOOL", |of| Ok(Value::Bool(to_float(&of[0]).is_nan()))),
    ("IS_INF", "FLOAT64 -> BOOL", |of| Ok(Value::Bool(to_float(&of[0]).is_infinite()))),
    ("GREATEST", "T... -> T", |of| extreme(of, std::cmp::Ordering::is_gt)),
    ("LEAST", "T... -> T", |of| extreme(of, std::cmp::Ordering::is_lt)),
];

fn float(number: f64) -> Outcome {
    Ok(Value::Float64(number))
}

fn or_null(outcome: Outcome) -> Outcome {
    Ok(outcome.unwrap_or(Value::Null))
}

fn int_operation(of: &[Value], sign: &str, operation: fn(i64, i64) -> Option<i64>) -> Outcome {
    let (left, right) = (int(&of[0]), int(&of[1]));
    let overflow = || SqlError::query(format!("int64 overflow: {left} {sign} {right}"));
    operation(left, right).map(Value::Int64).ok_or_else(overflow)
}

fn int_division(of: &[Value], operation: fn(i64, i64) -> Option<i64>) -> Outcome {
    let (left, right) = (int(&of[0]), int(&of[1]));
    if right == 0 {
        return error(format!("division by zero: {left} / {right}"));
    }
    operation(left, right).map(Value::Int64).ok_or_else(|| SqlError::query(format!("int64 overflow: {left} / {right}")))
}

/// A result that is infinite although no argument was is an overflow.
fn float_operation(of: &[Value], sign: &str, operation: fn(f64, f64) -> f64) -> Outcome {
    let (left, right) = (to_float(&of[0]), to_float(&of[1]));
    let result = operation(left, right);
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return error(format!("double overflow: {} {sign} {}", text::of_float(left), text::of_float(right)));
    }
    float(result)
}

fn divide(of: &[Value]) -> Outcome {
    if to_float(&of[1]) == 0.0 {
        let [left, right] = [&of[0], &of[1]].map(|value| text::of_float(to_float(value)));
        return error(format!("division by zero: {left} / {right}"));
    }
    float_operation(of, "/", |left, right| left / right)
}

fn finite(name: &str, of: &[Value], operation: impl Fn(f64) -> f64) -> Outcome {
    let number = to_float(&of[0]);
    let result = operation(number);
    if result.is_nan() && !number.is_nan() || result.is_infinite() && number.is_finite() {
        return error(format!("Floating point error in function: {name}({})", text::of_float(number)));
    }
    float(result)
}

fn power(of: &[Value]) -> Outcome {
    finite("POW", of, |number| number.powf(to_float(&of[1])))
}

/// Rounds a float to digits after the point, or before it when they are negative.
fn scaled(of: &[Value], round: fn(f64) -> f64) -> Outcome {
    let number = to_float(&of[0]);
    let digits = of.get(1).map_or(0, int).clamp(-400, 400) as i32;
    let scale = 10f64.powi(digits.abs());
    let result = if digits >= 0 { round(number * scale) / scale } else { round(number / scale) * scale };
    // Beyond a float's range there is nothing to round.
    float(if result.is_finite() { result } else { number })
}

fn unwrap(value: &Value) -> BigDecimal {
    if let Value::Numeric(number) | Value::BigNumeric(number) = value { (**number).clone() } else { BigDecimal::zero() }
}

fn kind(value: &Value) -> Type {
    if matches!(value, Value::Numeric(_)) { Type::Numeric } else { Type::BigNumeric }
}

fn one_decimal(of: &[Value], operation: fn(BigDecimal) -> BigDecimal) -> Outcome {
    decimal(&operation(unwrap(&of[0])), &kind(&of[0]))
}

fn decimal_operation(of: &[Value], operation: fn(BigDecimal, BigDecimal) -> BigDecimal) -> Outcome {
    decimal(&operation(unwrap(&of[0]), unwrap(&of[1])), &kind(&of[0]))
}

fn decimal_division(of: &[Value]) -> Outcome {
    let (left, right) = (unwrap(&of[0]), unwrap(&of[1]));
    if right.is_zero() {
        return error(format!("division by zero: {} / {}", text::of_decimal(&left), text::of_decimal(&right)));
    }
    decimal(&(left / right), &kind(&of[0]))
}

fn scaled_decimal(of: &[Value], mode: RoundingMode) -> Outcome {
    let digits = of.get(1).map_or(0, int).clamp(-80, 80);
    decimal(&unwrap(&of[0]).with_scale_round(digits, mode), &kind(&of[0]))
}

fn extreme(of: &[Value], better: fn(std::cmp::Ordering) -> bool) -> Outcome {
    let is_nan = |value: &Value| matches!(value, Value::Float64(number) if number.is_nan());
    let best = of.iter().reduce(|best, next| if better(compare::order(next, best)) { next } else { best });
    Ok(of.iter().find(|value| is_nan(value)).or(best).cloned().unwrap_or(Value::Null))
}
