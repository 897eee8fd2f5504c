//! Aggregate functions.

use std::collections::HashSet;
use std::sync::Arc;

use bigdecimal::BigDecimal;

use super::cast::{decimal, to_float};
use super::compare::{self, Key};
use super::error::SqlError;
use super::plan::{Expr, Order};
use super::text;
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

/// A call of an aggregate function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Aggregate {
    pub(super) function: Function,
    /// The argument; none for `COUNT(*)`.
    pub(super) argument: Option<Expr>,
    /// Its type.
    pub(super) kind: Type,
    pub(super) distinct: bool,
    pub(super) ignore_nulls: bool,
    pub(super) order: Vec<Order<Expr>>,
    pub(super) limit: Option<usize>,
    /// `HAVING MAX` (true) or `HAVING MIN` of an expression: only rows with the best value count.
    pub(super) having: Option<(Expr, bool)>,
}

impl Aggregate {
    /// The expressions that it evaluates.
    pub(super) fn expressions(&self) -> Vec<&Expr> {
        let order = self.order.iter().map(|order| &order.by);
        self.argument.iter().chain(order).chain(self.having.iter().map(|(by, _)| by)).collect()
    }

    /// As [`Aggregate::expressions`].
    pub(super) fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        let order = self.order.iter_mut().map(|order| &mut order.by);
        self.argument.iter_mut().chain(order).chain(self.having.iter_mut().map(|(by, _)| by)).collect()
    }
}

/// The functions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Function {
    Count,
    CountIf,
    Sum,
    Avg,
    Min,
    Max,
    AnyValue,
    ArrayAgg,
    ArrayConcatAgg,
    /// With its separator.
    StringAgg(Arc<str>),
    LogicalAnd,
    LogicalOr,
    /// With the number of quantiles.
    ApproxQuantiles(usize),
    Variance {
        sample: bool,
        root: bool,
    },
}

/// The function of that name, before its arguments are known.
pub(super) fn named(name: &str) -> Option<Function> {
    Some(match name {
        "COUNT" | "APPROX_COUNT_DISTINCT" => Function::Count,
        "COUNTIF" => Function::CountIf,
        "SUM" => Function::Sum,
        "AVG" => Function::Avg,
        "MIN" => Function::Min,
        "MAX" => Function::Max,
        "ANY_VALUE" => Function::AnyValue,
        "ARRAY_AGG" => Function::ArrayAgg,
        "ARRAY_CONCAT_AGG" => Function::ArrayConcatAgg,
        "STRING_AGG" => Function::StringAgg(",".into()),
        "LOGICAL_AND" => Function::LogicalAnd,
        "LOGICAL_OR" => Function::LogicalOr,
        "APPROX_QUANTILES" => Function::ApproxQuantiles(1),
        "STDDEV" | "STDDEV_SAMP" => Function::Variance { sample: true, root: true },
        "STDDEV_POP" => Function::Variance { sample: false, root: true },
        "VARIANCE" | "VAR_SAMP" => Function::Variance { sample: true, root: false },
        "VAR_POP" => Function::Variance { sample: false, root: false },
        _ => return None,
    })
}

impl Function {
    /// The type of the result for an argument's type; none when the function doesn't take it.
    pub(super) fn result(&self, argument: &Type) -> Option<Type> {
        let numeric = matches!(argument, Type::Int64 | Type::Float64 | Type::Numeric | Type::BigNumeric);
        let orderable = !matches!(argument, Type::Array(_) | Type::Struct(_) | Type::Json | Type::Geography);
        match self {
            Self::Count => Some(Type::Int64),
            Self::CountIf => (*argument == Type::Bool).then_some(Type::Int64),
            Self::LogicalAnd | Self::LogicalOr => (*argument == Type::Bool).then_some(Type::Bool),
            Self::Sum => numeric.then(|| argument.clone()),
            Self::Avg => numeric.then(|| if *argument == Type::Int64 { Type::Float64 } else { argument.clone() }),
            Self::Variance { .. } => {
                numeric.then(|| if *argument == Type::Int64 { Type::Float64 } else { argument.clone() })
            }
            Self::Min | Self::Max => orderable.then(|| argument.clone()),
            Self::AnyValue => Some(argument.clone()),
            Self::ArrayAgg => argument.element().is_none().then(|| argument.clone().array()),
            Self::ArrayConcatAgg => argument.element().map(|_| argument.clone()),
            Self::StringAgg(_) => matches!(argument, Type::String).then(|| argument.clone()),
            Self::ApproxQuantiles(_) => orderable.then(|| argument.clone().array()),
        }
    }
}

/// What one group has collected for one aggregate.
pub(super) struct State {
    function: Function,
    kind: Type,
    ignore_nulls: bool,
    seen: Option<HashSet<Key>>,
    count: i64,
    sum: Sum,
    best: Value,
    /// Values with the keys of their order, for functions that see them all at the end.
    values: Vec<(Vec<Value>, Value)>,
    mean: f64,
    squares: f64,
    having: Option<(Value, bool)>,
}

enum Sum {
    Int(i128),
    Float(f64),
    Decimal(BigDecimal),
}

impl State {
    /// Nothing yet.
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        let sum = match aggregate.kind {
            Type::Float64 => Sum::Float(0.0),
            Type::Numeric | Type::BigNumeric => Sum::Decimal(BigDecimal::default()),
            _ => Sum::Int(0),
        };
        Self {
            function: aggregate.function.clone(),
            kind: aggregate.kind.clone(),
            ignore_nulls: aggregate.ignore_nulls,
            seen: aggregate.distinct.then(HashSet::new),
            count: 0,
            sum,
            best: Value::Null,
            values: Vec::new(),
            mean: 0.0,
            squares: 0.0,
            having: aggregate.having.as_ref().map(|(_, largest)| (Value::Null, *largest)),
        }
    }

    /// Adds the value of one row, with its keys for an order and for `HAVING`.
    pub(super) fn add(&mut self, value: Value, order: Vec<Value>, having: Option<Value>) {
        if let (Some((best, largest)), Some(next)) = (&mut self.having, having) {
            if next.is_null() {
                return;
            }
            let order = compare::order(&next, best);
            if best.is_null() || order.is_ne() && order.is_gt() == *largest {
                *best = next;
                self.count = 0;
                self.values.clear();
                self.best = Value::Null;
            } else if order.is_ne() {
                return;
            }
        }
        let takes_nulls = matches!(self.function, Function::ArrayAgg | Function::AnyValue) && !self.ignore_nulls;
        if value.is_null() && !takes_nulls {
            return;
        }
        if self.seen.as_mut().is_some_and(|seen| !seen.insert(Key(vec![value.clone()]))) {
            return;
        }
        match &self.function {
            Function::Count => {}
            Function::CountIf if value != Value::Bool(true) => return,
            Function::CountIf => {}
            Function::Sum | Function::Avg => match (&mut self.sum, &value) {
                (Sum::Int(sum), Value::Int64(number)) => *sum += i128::from(*number),
                (Sum::Float(sum), Value::Float64(number)) => *sum += number,
                (Sum::Decimal(sum), Value::Numeric(number) | Value::BigNumeric(number)) => *sum += &**number,
                _ => {}
            },
            Function::Min | Function::Max => {
                let is_nan = |value: &Value| matches!(value, Value::Float64(number) if number.is_nan());
                let order = compare::order(&value, &self.best);
                let better = if self.function == Function::Min { order.is_lt() } else { order.is_gt() };
                if self.count == 0 || is_nan(&value) || better && !is_nan(&self.best) {
                    self.best = value;
                }
            }
            Function::AnyValue if self.count == 0 || self.best.is_null() && !value.is_null() => self.best = value,
            Function::AnyValue => {}
            Function::LogicalAnd | Function::LogicalOr => {
                let decides = Value::Bool(self.function == Function::LogicalOr);
                if self.count == 0 || value == decides {
                    self.best = value;
                }
            }
            Function::Variance { .. } => {
                // Welford's method: no difference of two large sums.
                let number = to_float(&value);
                let delta = number - self.mean;
                self.mean += delta / (self.count + 1) as f64;
                self.squares += delta * (number - self.mean);
            }
            Function::ArrayAgg | Function::ArrayConcatAgg | Function::StringAgg(_) | Function::ApproxQuantiles(_) => {
                self.values.push((order, value));
            }
        }
        self.count += 1;
    }

    /// The result so far.
    ///
    /// # Errors
    /// When a sum is out of range.
    pub(super) fn result(&self, aggregate: &Aggregate) -> Result<Value, SqlError> {
        if self.count == 0 {
            return Ok(match self.function {
                Function::Count | Function::CountIf => Value::Int64(0),
                _ => Value::Null,
            });
        }
        Ok(match &self.function {
            Function::Count | Function::CountIf => Value::Int64(self.count),
            Function::Sum => match &self.sum {
                Sum::Int(sum) => {
                    let overflow = |_| SqlError::query("int64 overflow");
                    Value::Int64(i64::try_from(*sum).map_err(overflow)?)
                }
                Sum::Float(sum) => Value::Float64(*sum),
                Sum::Decimal(sum) => decimal(sum, &self.kind)?,
            },
            Function::Avg => match &self.sum {
                Sum::Int(sum) => Value::Float64(*sum as f64 / self.count as f64),
                Sum::Float(sum) => Value::Float64(sum / self.count as f64),
                Sum::Decimal(sum) => decimal(&(sum / BigDecimal::from(self.count)), &self.kind)?,
            },
            Function::Min | Function::Max | Function::AnyValue | Function::LogicalAnd | Function::LogicalOr => {
                self.best.clone()
            }
            Function::Variance { sample, root } => {
                let count = if *sample { self.count - 1 } else { self.count };
                if count == 0 {
                    return Ok(Value::Null);
                }
                let variance = self.squares / count as f64;
                let number = if *root { variance.sqrt() } else { variance };
                super::cast::cast(
                    Value::Float64(number),
                    &Type::Float64,
                    &self.function.result(&self.kind).unwrap_or(Type::Float64),
                )?
            }
            Function::ArrayAgg => Value::array(self.ordered(aggregate).cloned()),
            Function::ArrayConcatAgg => Value::array(self.ordered(aggregate).flat_map(|value| match value {
                Value::Array(elements) => elements.to_vec(),
                _ => Vec::new(),
            })),
            Function::StringAgg(separator) => {
                Value::from(self.ordered(aggregate).map(text::of_value).collect::<Vec<_>>().join(separator))
            }
            Function::ApproxQuantiles(count) => {
                let mut values: Vec<&Value> = self.values.iter().map(|(_, value)| value).collect();
                values.sort_by(|left, right| compare::order(left, right));
                let last = values.len() - 1;
                Value::array((0..=*count).map(|at| values[(last * at + count / 2) / count].clone()))
            }
        })
    }

    /// The values in the call's order, as many as its limit says.
    fn ordered<'a>(&'a self, aggregate: &Aggregate) -> impl Iterator<Item = &'a Value> {
        let mut values: Vec<&(Vec<Value>, Value)> = self.values.iter().collect();
        values.sort_by(|left, right| by_keys(&aggregate.order, &left.0, &right.0));
        values.into_iter().take(aggregate.limit.unwrap_or(usize::MAX)).map(|(_, value)| value)
    }
}

/// Compares two rows by the keys of an order.
pub(super) fn by_keys<T>(order: &[Order<T>], left: &[Value], right: &[Value]) -> std::cmp::Ordering {
    let pairs = order.iter().zip(left.iter().zip(right));
    let compared = pairs.map(|(order, (left, right))| in_order(order, left, right));
    compared.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

/// Compares two values in the direction of an order.
pub(super) fn in_order<T>(order: &Order<T>, left: &Value, right: &Value) -> std::cmp::Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) if order.nulls_first => std::cmp::Ordering::Less,
        (true, false) => std::cmp::Ordering::Greater,
        (false, true) if order.nulls_first => std::cmp::Ordering::Greater,
        (false, true) => std::cmp::Ordering::Less,
        _ if order.descending => compare::order(right, left),
        _ => compare::order(left, right),
    }
}
