//! Window functions: a value for each row, from the rows around it.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::aggregate::{State, by_keys};
use super::catalog::Row;
use super::compare::{self, Key};
use super::error::SqlError;
use super::plan::{Bound, Expr, Window, WindowFunction};
use super::run::{Env, Run};
use super::{cast, datetime};
use crate::bigquery::value::{Interval, Value};

/// The functions of numbering and navigation: their names, how many arguments they may have.
pub(super) const NAMED: [(&str, std::ops::RangeInclusive<usize>); 12] = [
    ("ROW_NUMBER", 0..=0),
    ("RANK", 0..=0),
    ("DENSE_RANK", 0..=0),
    ("PERCENT_RANK", 0..=0),
    ("CUME_DIST", 0..=0),
    ("NTILE", 1..=1),
    ("LAG", 1..=3),
    ("LEAD", 1..=3),
    ("FIRST_VALUE", 1..=1),
    ("LAST_VALUE", 1..=1),
    ("NTH_VALUE", 2..=2),
    ("PERCENTILE_CONT", 2..=2),
];

/// The value of a window function for each row, in the order of the rows.
pub(super) fn values(
    run: &Run<'_>,
    window: &Window,
    rows: &[Row],
    outer: Option<&Env<'_>>,
) -> Result<Vec<Value>, SqlError> {
    let eval = |expr: &Expr, row: usize| run.eval(expr, &Env { row: &rows[row], outer });
    let all = |exprs: &mut dyn Iterator<Item = &Expr>, row: usize| {
        exprs.map(|expr| eval(expr, row)).collect::<Result<Vec<_>, _>>()
    };
    let mut partitions: Vec<Vec<usize>> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut keys = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let key = Key(all(&mut window.partition.iter(), row)?);
        let partition = *index.entry(key).or_insert_with(|| {
            partitions.push(Vec::new());
            partitions.len() - 1
        });
        partitions[partition].push(row);
        keys.push(all(&mut window.order.iter().map(|order| &order.by), row)?);
    }
    let mut values = vec![Value::Null; rows.len()];
    for mut partition in partitions {
        partition.sort_by(|left, right| by_keys(&window.order, &keys[*left], &keys[*right]));
        let keys: Vec<&[Value]> = partition.iter().map(|row| keys[*row].as_slice()).collect();
        let partition = Partition { window, rows: &partition, keys };
        let results = match &window.function {
            WindowFunction::Aggregate(aggregate) => {
                let mut inputs = Vec::with_capacity(partition.rows.len());
                for row in partition.rows {
                    let value =
                        aggregate.argument.as_ref().map_or(Ok(Value::Int64(1)), |argument| eval(argument, *row))?;
                    let having = aggregate.having.as_ref().map(|(by, _)| eval(by, *row)).transpose()?;
                    inputs.push((value, all(&mut aggregate.order.iter().map(|order| &order.by), *row)?, having));
                }
                let add = |state: &mut State, at: usize| {
                    let (value, order, having) = inputs[at].clone();
                    state.add(value, order, having);
                };
                // The frames of a running total begin at the same row and only grow.
                let (mut state, mut added, mut result) = (State::new(aggregate), 0, Value::Null);
                let mut results = Vec::with_capacity(partition.rows.len());
                for at in 0..partition.rows.len() {
                    let (start, end) = partition.frame(run, at, &Env { row: &rows[partition.rows[at]], outer })?;
                    if start > 0 {
                        let mut state = State::new(aggregate);
                        (start..end).for_each(|at| add(&mut state, at));
                        results.push(state.result(aggregate)?);
                        continue;
                    }
                    if end < added {
                        (state, added) = (State::new(aggregate), 0);
                    }
                    if end > added || at == 0 {
                        (added..end).for_each(|at| add(&mut state, at));
                        added = end;
                        result = state.result(aggregate)?;
                    }
                    results.push(result.clone());
                }
                results
            }
            WindowFunction::Named { name, arguments, ignore_nulls } => {
                let mut inputs = Vec::with_capacity(partition.rows.len());
                for row in partition.rows {
                    inputs.push(all(&mut arguments.iter(), *row)?);
                }
                (0..partition.rows.len())
                    .map(|at| {
                        let env = Env { row: &rows[partition.rows[at]], outer };
                        partition.named(run, name, &inputs, *ignore_nulls, at, &env)
                    })
                    .collect::<Result<Vec<_>, _>>()?
            }
        };
        for (row, value) in partition.rows.iter().zip(results) {
            values[*row] = value;
        }
    }
    Ok(values)
}

/// Rows of one partition in order, with the keys of that order.
struct Partition<'a> {
    window: &'a Window,
    rows: &'a [usize],
    keys: Vec<&'a [Value]>,
}

impl Partition<'_> {
    fn peers(&self, left: usize, right: usize) -> bool {
        by_keys(&self.window.order, self.keys[left], self.keys[right]).is_eq()
    }

    fn first_peer(&self, at: usize) -> usize {
        (0..at).rev().take_while(|before| self.peers(*before, at)).last().unwrap_or(at)
    }

    /// The row after the last peer.
    fn after_peers(&self, at: usize) -> usize {
        (at + 1..self.rows.len()).find(|after| !self.peers(*after, at)).unwrap_or(self.rows.len())
    }

    /// The rows that the function sees: start, and the end that isn't one of them.
    fn frame(&self, run: &Run<'_>, at: usize, env: &Env<'_>) -> Result<(usize, usize), SqlError> {
        let frame = &self.window.frame;
        let count = self.rows.len();
        let distance = |expr: &Expr| match run.eval(expr, env)? {
            value @ (Value::Int64(_) | Value::Float64(_) | Value::Interval(_) | Value::Numeric(_)) => Ok(value),
            _ => Err(SqlError::query("Window framing expression cannot evaluate to NULL")),
        };
        let rows = |value: Value| usize::try_from(cast::to_float(&value) as i64).map_err(|_| negative());
        let start = match &frame.start {
            Bound::Unbounded => 0,
            Bound::Current if frame.range => self.first_peer(at),
            Bound::Current => at,
            Bound::Preceding(by) if frame.range => self.within(at, &distance(by)?, true)?.0,
            Bound::Following(by) if frame.range => self.within(at, &distance(by)?, false)?.0,
            Bound::Preceding(by) => at.saturating_sub(rows(distance(by)?)?),
            Bound::Following(by) => at + rows(distance(by)?)?,
        };
        let end = match &frame.end {
            Bound::Unbounded => count,
            Bound::Current if frame.range => self.after_peers(at),
            Bound::Current => at + 1,
            Bound::Preceding(by) if frame.range => self.within(at, &distance(by)?, true)?.1,
            Bound::Following(by) if frame.range => self.within(at, &distance(by)?, false)?.1,
            Bound::Preceding(by) => (at + 1).saturating_sub(rows(distance(by)?)?),
            Bound::Following(by) => at + 1 + rows(distance(by)?)?,
        };
        let end = end.min(count);
        Ok((start.min(end), end))
    }

    /// Where the key of a row, less or more a distance, would be: before and after its peers.
    fn within(&self, at: usize, by: &Value, preceding: bool) -> Result<(usize, usize), SqlError> {
        let order = &self.window.order[0];
        let key = &self.keys[at][0];
        if key.is_null() {
            return Ok((self.first_peer(at), self.after_peers(at)));
        }
        let back = preceding != order.descending;
        let sign = if back { -1 } else { 1 };
        let limit = match (key, by) {
            (Value::Int64(key), Value::Int64(by)) => Value::Int64(key.saturating_add(sign * by)),
            (Value::Float64(key), by) => Value::Float64(key + sign as f64 * cast::to_float(by)),
            (Value::Date(key), Value::Int64(by)) => Value::Date(datetime::checked_day(i64::from(*key) + sign * by)?),
            (Value::Timestamp(key), Value::Interval(by)) => {
                let by = Interval { months: sign * by.months, days: sign * by.days, micros: sign * by.micros };
                Value::Timestamp(datetime::add(*key, &by)?)
            }
            _ => return Err(SqlError::unsupported("RANGE with a distance over this type")),
        };
        let place = |value: &Value| match super::aggregate::in_order(order, value, &limit) {
            Ordering::Less => (true, true),
            Ordering::Equal => (false, true),
            Ordering::Greater => (false, false),
        };
        let before = self.keys.iter().filter(|key| place(&key[0]).0).count();
        let until = self.keys.iter().filter(|key| place(&key[0]).1).count();
        Ok((before, until))
    }

    fn named(
        &self,
        run: &Run<'_>,
        name: &str,
        inputs: &[Vec<Value>],
        ignore_nulls: bool,
        at: usize,
        env: &Env<'_>,
    ) -> Result<Value, SqlError> {
        let count = self.rows.len();
        let number = |argument: usize| match inputs[at].get(argument) {
            Some(Value::Int64(number)) => Ok(*number),
            None => Ok(1),
            _ => Err(SqlError::query(format!("The argument to the function {name} must not be null"))),
        };
        Ok(match name {
            "ROW_NUMBER" => Value::Int64(at as i64 + 1),
            "RANK" => Value::Int64(self.first_peer(at) as i64 + 1),
            "DENSE_RANK" => Value::Int64((1..=at).filter(|row| !self.peers(row - 1, *row)).count() as i64 + 1),
            "PERCENT_RANK" if count == 1 => Value::Float64(0.0),
            "PERCENT_RANK" => Value::Float64(self.first_peer(at) as f64 / (count - 1) as f64),
            "CUME_DIST" => Value::Float64(self.after_peers(at) as f64 / count as f64),
            "NTILE" => {
                let tiles = usize::try_from(number(0)?).ok().filter(|tiles| *tiles > 0);
                let tiles = tiles.ok_or_else(|| {
                    SqlError::query("The N value (number of buckets) for the NTILE function must be positive")
                })?;
                let (size, larger) = (count / tiles, count % tiles);
                let tile = if at < larger * (size + 1) {
                    at / (size + 1)
                } else {
                    larger + (at - larger * (size + 1)) / size.max(1)
                };
                Value::Int64(tile as i64 + 1)
            }
            "LAG" | "LEAD" => {
                let by = number(1)?;
                if by < 0 {
                    return Err(SqlError::query(format!("The offset to the function {name} must not be negative")));
                }
                let row = at as i64 + if name == "LAG" { -by } else { by };
                let row = usize::try_from(row).ok().filter(|row| *row < count);
                let default = || inputs[at].get(2).cloned().unwrap_or(Value::Null);
                row.map_or_else(default, |row| inputs[row][0].clone())
            }
            "PERCENTILE_CONT" => {
                let mut numbers: Vec<f64> =
                    inputs.iter().filter(|input| !input[0].is_null()).map(|input| cast::to_float(&input[0])).collect();
                if numbers.is_empty() {
                    return Ok(Value::Null);
                }
                numbers.sort_by(|left, right| compare::order(&Value::Float64(*left), &Value::Float64(*right)));
                let place = cast::to_float(&inputs[at][1]) * (numbers.len() - 1) as f64;
                let (low, high) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
                Value::Float64(low + (high - low) * place.fract())
            }
            _ => {
                let (start, end) = self.frame(run, at, env)?;
                let mut seen =
                    inputs[start..end].iter().map(|input| &input[0]).filter(|value| !ignore_nulls || !value.is_null());
                let found = match name {
                    "FIRST_VALUE" => seen.next(),
                    "LAST_VALUE" => seen.next_back(),
                    _ => {
                        let nth = usize::try_from(number(1)?).ok().filter(|nth| *nth > 0);
                        let nth = nth.ok_or_else(|| {
                            SqlError::query("The N value for the NTH_VALUE function must be positive")
                        })?;
                        seen.nth(nth - 1)
                    }
                };
                found.cloned().unwrap_or(Value::Null)
            }
        })
    }
}

fn negative() -> SqlError {
    SqlError::query("Window frame bound must be non-negative")
}
