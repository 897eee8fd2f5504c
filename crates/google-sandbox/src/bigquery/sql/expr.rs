//! Binds expressions: names become slots, operators and functions get their signatures, every value its type.

use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, Expr as Ast, InTarget,
    Spanned, Subscript, TrimWhereField, UnaryOperator, Value as Literal,
};

use super::bind::Binder;
use super::cast;
use super::error::SqlError;
use super::functions;
use super::lexer::position;
use super::plan::{Comparison, Expr, SubqueryKind};
use super::scope::{Clause, Scope, field};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::value::Value;

/// A bound expression.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) expr: Expr,
    pub(super) kind: Type,
    pub(super) origin: Origin,
    /// The fields, when a struct was put together here: each becomes another type as if it stood alone.
    pub(super) fields: Vec<Bound>,
}

/// Where a value comes from, which decides what it can become without a cast.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    Other,
    /// A literal, or a parameter's value.
    Literal,
    /// `NULL`, or an array without elements and type: it becomes anything, or any array.
    Untyped,
    /// A parameter without a value.
    Undeclared(String),
}

impl Bound {
    pub(super) fn new(expr: Expr, kind: Type) -> Self {
        Self { expr, kind, origin: Origin::Other, fields: Vec::new() }
    }

    pub(super) fn literal(value: Value, kind: Type) -> Self {
        Self { origin: Origin::Literal, ..Self::new(Expr::Constant(value), kind) }
    }

    /// `NULL`.
    pub(super) fn null() -> Self {
        Self { origin: Origin::Untyped, ..Self::new(Expr::Constant(Value::Null), Type::Int64) }
    }

    /// How far it is from a type; none when it doesn't become that type by itself.
    pub(super) fn distance(&self, to: &Type) -> Option<u32> {
        match (&self.origin, to) {
            (_, Type::Struct(wanted)) if !self.fields.is_empty() && self.fields.len() == wanted.len() => {
                self.fields.iter().zip(wanted.iter()).map(|(field, wanted)| field.distance(&wanted.kind)).sum()
            }
            (Origin::Undeclared(_), _) => Some(0),
            (Origin::Untyped, _) if self.kind.element().is_none() || to.element().is_some() => Some(0),
            _ => functions::distance(&self.kind, to, self.origin == Origin::Literal),
        }
    }
}

/// What a number's text is.
fn number(text: &str) -> Result<Bound, SqlError> {
    let hex = text.starts_with("0x");
    if !hex && text.contains(['.', 'e', 'E']) {
        let invalid = || SqlError::query(format!("Invalid floating point literal: {text}"));
        let number: f64 = text.parse().map_err(|_| invalid())?;
        return if number.is_finite() {
            Ok(Bound::literal(Value::Float64(number), Type::Float64))
        } else {
            Err(invalid())
        };
    }
    let value = cast::from_text(text, &Type::Int64);
    let invalid = |_| SqlError::query(format!("Invalid integer literal: {text}"));
    Ok(Bound::literal(value.map_err(invalid)?, Type::Int64))
}

impl Binder<'_> {
    /// Binds an expression.
    pub(super) fn expr(&self, ast: &Ast, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        if let Some(key) = self.group_key(ast, scope) {
            return Ok(key);
        }
        let _level = self.deeper()?;
        self.expr_at(ast, scope).map_err(|error| error.at(position(ast.span())))
    }

    /// A whole expression that the block groups by.
    fn group_key(&self, ast: &Ast, scope: &Scope<'_>) -> Option<Bound> {
        let keys = scope.grouping.as_ref()?;
        let simple = |expr: &Expr| matches!(expr, Expr::Column { .. } | Expr::Field(..));
        if scope.before_groups.get() || matches!(ast, Ast::Identifier(_) | Ast::CompoundIdentifier(_) | Ast::Value(_)) {
            return None;
        }
        if keys.iter().all(|(key, _)| simple(key)) {
            return None;
        }
        let mark = self.mark();
        scope.before_groups.set(true);
        // No key has an aggregate.
        let clause = scope.clause.replace(Clause::GroupBy);
        let bound = self.expr_at(ast, scope);
        scope.clause.set(clause);
        scope.before_groups.set(false);
        self.reset(mark);
        let bound = bound.ok()?;
        let slot = keys.iter().position(|(key, _)| *key == bound.expr)?;
        Some(Bound::new(Expr::Column { depth: 0, slot }, bound.kind))
    }

    fn expr_at(&self, ast: &Ast, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        match ast {
            Ast::Identifier(name) => {
                super::parse::check_name(name)?;
                let (expr, kind) = scope.resolve(std::slice::from_ref(name))?;
                Ok(Bound::new(expr, kind))
            }
            Ast::CompoundIdentifier(path) => {
                super::parse::check_name(&path[0])?;
                let (expr, kind) = scope.resolve(path)?;
                Ok(Bound::new(expr, kind))
            }
            Ast::CompoundFieldAccess { root, access_chain } => {
                let mut bound = self.expr(root, scope)?;
                for access in access_chain {
                    bound = self.access(bound, access, scope)?;
                }
                Ok(bound)
            }
            Ast::Nested(inner) => self.expr(inner, scope),
            Ast::Value(literal) => match &literal.value {
                Literal::Number(text, _) => number(text),
                Literal::SingleQuotedString(text) => Ok(Bound::literal(Value::from(text.as_str()), Type::String)),
                Literal::SingleQuotedByteStringLiteral(text) => {
                    let bytes = text.chars().map(|byte| byte as u8).collect();
                    Ok(Bound::literal(Value::Bytes(bytes), Type::Bytes))
                }
                Literal::Boolean(truth) => Ok(Bound::literal(Value::Bool(*truth), Type::Bool)),
                Literal::Null => Ok(Bound::null()),
                Literal::Placeholder(name) => self.parameter(name),
                other => Err(SqlError::unsupported(format_args!("the literal {other}"))),
            },
            Ast::TypedString(typed) => {
                let kind = self.data_type(&typed.data_type)?;
                let Literal::SingleQuotedString(text) = &typed.value.value else {
                    return Err(SqlError::unsupported(format_args!("the literal {ast}")));
                };
                let name = kind.base_name();
                let value =
                    cast::from_text(text, &kind).map_err(|_| SqlError::query(format!("Invalid {name} literal")))?;
                Ok(Bound::new(Expr::Constant(value), kind))
            }
            Ast::UnaryOp { op, expr } => match op {
                UnaryOperator::Not => {
                    not_null(&[&self.expr(expr, scope)?], "NOT")?;
                    let operand = self.bool(expr, scope, "operator NOT")?;
                    Ok(Bound::new(Expr::Not(Box::new(operand)), Type::Bool))
                }
                UnaryOperator::Minus => {
                    if let Ast::Value(literal) = &**expr
                        && let Literal::Number(text, _) = &literal.value
                    {
                        return number(&format!("-{text}")).or_else(|_| {
                            let (bound, minus) = (self.expr(expr, scope)?, "$minus");
                            self.call_bound(minus, vec![bound], false)
                        });
                    }
                    let operand = self.expr(expr, scope)?;
                    not_null(&[&operand], "-")?;
                    self.call_bound("$minus", vec![operand], false)
                }
                UnaryOperator::Plus => self.expr(expr, scope),
                UnaryOperator::BitwiseNot => {
                    let operand = self.expr(expr, scope)?;
                    self.call_bound("$bitnot", vec![operand], false)
                }
                other => Err(SqlError::unsupported(format_args!("the operator {other}"))),
            },
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right, scope),
            Ast::IsNull(operand) => self.is_null(operand, scope),
            Ast::IsNotNull(operand) => Ok(negated(self.is_null(operand, scope)?)),
            Ast::IsTrue(operand) => self.is_bool(operand, true, scope),
            Ast::IsFalse(operand) => self.is_bool(operand, false, scope),
            Ast::IsNotTrue(operand) => Ok(negated(self.is_bool(operand, true, scope)?)),
            Ast::IsNotFalse(operand) => Ok(negated(self.is_bool(operand, false, scope)?)),
            Ast::IsDistinctFrom(left, right) => self.comparison(Comparison::Distinct, left, right, scope),
            Ast::IsNotDistinctFrom(left, right) => self.comparison(Comparison::NotDistinct, left, right, scope),
            Ast::Between { expr, negated: not, low, high } => {
                let [value, low, high] = [self.expr(expr, scope)?, self.expr(low, scope)?, self.expr(high, scope)?];
                let (operands, _) = self.common(vec![value, low, high], "operator BETWEEN")?;
                let [value, low, high] = operands
                    .try_into()
                    .unwrap_or_else(|_| [Expr::Array(vec![]), Expr::Array(vec![]), Expr::Array(vec![])]);
                let at_least = compare(Comparison::GreaterOrEqual, value.clone(), low);
                let at_most = compare(Comparison::LessOrEqual, value, high);
                let between = Bound::new(Expr::And(Box::new(at_least), Box::new(at_most)), Type::Bool);
                Ok(if *not { negated(between) } else { between })
            }
            Ast::In { expr, target, negated: not, .. } => {
                let within = self.is_in(expr, target, scope)?;
                Ok(if *not { negated(within) } else { within })
            }
            Ast::Like { negated: not, any, expr, pattern, escape_char: None } => {
                let value = self.expr(expr, scope)?;
                let patterns = match &**pattern {
                    Ast::Tuple(patterns) if *any => patterns.iter().collect(),
                    Ast::Nested(pattern) if *any => vec![&**pattern],
                    pattern => vec![pattern],
                };
                let mut all = patterns.into_iter().map(|pattern| {
                    let pattern = self.expr(pattern, scope)?;
                    not_null(&[&value, &pattern], "LIKE")?;
                    self.call_bound("$like", vec![value.clone(), pattern], false)
                });
                let first = all.next().unwrap_or_else(|| Err(SqlError::query("LIKE needs a pattern")))?;
                let like = all.try_fold(first, |left, right| {
                    Ok::<_, SqlError>(Bound::new(Expr::Or(Box::new(left.expr), Box::new(right?.expr)), Type::Bool))
                })?;
                Ok(if *not { negated(like) } else { like })
            }
            Ast::Cast { kind, expr, data_type, format: None } => {
                let safe = match kind {
                    CastKind::Cast => false,
                    CastKind::SafeCast => true,
                    _ => return Err(SqlError::unsupported(format_args!("{ast}"))),
                };
                let to = self.data_type(data_type)?;
                // A literal keeps its digits on the way to a decimal.
                if let (Ast::Value(literal), Type::Numeric | Type::BigNumeric) = (&**expr, &to)
                    && let Literal::Number(text, _) = &literal.value
                    && let Ok(value) = cast::from_text(text, &to)
                {
                    return Ok(Bound::new(Expr::Constant(value), to));
                }
                let bound = self.expr(expr, scope)?;
                self.explicit_cast(bound, &to, safe)
            }
            Ast::Extract { field, expr, .. } => self.extract(field, expr, scope),
            Ast::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.named("CEIL", &[expr], scope)
            }
            Ast::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.named("FLOOR", &[expr], scope)
            }
            Ast::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                let mut arguments = vec![&**expr, &**from];
                arguments.extend(substring_for.as_deref());
                self.named("SUBSTR", &arguments, scope)
            }
            Ast::Trim { expr, trim_where, trim_what: None, trim_characters } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "TRIM",
                    Some(TrimWhereField::Leading) => "LTRIM",
                    Some(TrimWhereField::Trailing) => "RTRIM",
                };
                let mut arguments = vec![&**expr];
                arguments.extend(trim_characters.iter().flatten());
                self.named(name, &arguments, scope)
            }
            Ast::Position { expr, r#in } => self.named("STRPOS", &[r#in, expr], scope),
            Ast::Function(function) => self.function(function, scope),
            Ast::Case { operand, conditions, else_result, .. } => {
                let operand = operand.as_ref().map(|operand| self.expr(operand, scope)).transpose()?;
                let mut tests = Vec::new();
                let mut results = Vec::new();
                for when in conditions {
                    let test = match &operand {
                        Some(operand) => {
                            let value = self.expr(&when.condition, scope)?;
                            let (pair, _) = self.common(vec![operand.clone(), value], "operator =")?;
                            let mut pair = pair.into_iter();
                            match (pair.next(), pair.next()) {
                                (Some(left), Some(right)) => compare(Comparison::Equal, left, right),
                                _ => Expr::Constant(Value::Null),
                            }
                        }
                        None => self.bool(&when.condition, scope, "operator CASE")?,
                    };
                    tests.push(test);
                    results.push(self.expr(&when.result, scope)?);
                }
                results.push(match else_result {
                    Some(result) => self.expr(result, scope)?,
                    None => Bound::null(),
                });
                let (mut results, kind) = self.common(results, "operator CASE")?;
                let otherwise = Box::new(results.pop().unwrap_or(Expr::Constant(Value::Null)));
                Ok(Bound::new(Expr::Case { branches: tests.into_iter().zip(results).collect(), otherwise }, kind))
            }
            Ast::Exists { subquery, negated: not } => {
                let exists = self.subquery(SubqueryKind::Exists, subquery, scope)?;
                let exists = Bound::new(exists.0, Type::Bool);
                Ok(if *not { negated(exists) } else { exists })
            }
            Ast::Subquery(query) => {
                let (expr, kind) = self.subquery(SubqueryKind::Scalar, query, scope)?;
                Ok(Bound::new(expr, kind))
            }
            Ast::Array(Array { elem, .. }) => self.array(elem, scope),
            Ast::Struct { values, fields } => self.record(values, fields, scope),
            Ast::Tuple(values) => self.record(values, &[], scope),
            Ast::Interval(interval) => {
                let (Some(unit), None) = (&interval.leading_field, &interval.last_field) else {
                    return Err(SqlError::unsupported(format_args!("the interval {interval}")));
                };
                let count = self.expr(&interval.value, scope)?;
                let part = self.part(&unit.to_string())?;
                self.call_bound("$interval", vec![count, part], false)
            }
            other => Err(SqlError::unsupported(format_args!("the expression {other}"))),
        }
    }

    /// A type as SQL writes it.
    pub(super) fn data_type(&self, ast: &DataType) -> Result<Type, SqlError> {
        let text = ast.to_string();
        match ast {
            DataType::Array(element) => match element {
                sqlparser::ast::ArrayElemTypeDef::AngleBracket(element) => Ok(self.data_type(element)?.array()),
                _ => Err(SqlError::query(format!("Type not found: {text}"))),
            },
            DataType::Struct(fields, _) => {
                let fields = fields.iter().map(|field| {
                    let name = field.field_name.as_ref().map_or("", |name| &name.value);
                    Ok(Field::new(name, self.data_type(&field.field_type)?))
                });
                Ok(Type::record(fields.collect::<Result<Vec<_>, SqlError>>()?))
            }
            // Lengths and precisions don't change the type.
            _ => {
                let name = text.split(['(', ' ']).next().unwrap_or_default();
                Type::scalar(name).ok_or_else(|| SqlError::query(format!("Type not found: {name}")))
            }
        }
    }

    /// Makes an expression of another type, if values become that type by themselves.
    pub(super) fn coerce(&self, bound: Bound, to: &Type) -> Result<Option<Expr>, SqlError> {
        if bound.distance(to).is_none() {
            return Ok(None);
        }
        if let (Type::Struct(wanted), false) = (to, bound.fields.is_empty()) {
            let fields =
                bound.fields.into_iter().zip(wanted.iter()).map(|(field, wanted)| self.coerce(field, &wanted.kind));
            return Ok(fields.collect::<Result<Option<Vec<_>>, _>>()?.map(record_expr));
        }
        match bound.origin {
            Origin::Undeclared(name) => self.infer(&name, to),
            Origin::Untyped => {}
            _ if bound.kind == *to => {}
            Origin::Literal => {
                if let Expr::Constant(value) = &bound.expr {
                    let wrong = |_| {
                        SqlError::query(format!(
                            "Could not cast literal \"{}\" to type {to}",
                            super::text::of_value(value)
                        ))
                    };
                    return cast::cast(value.clone(), &bound.kind, to)
                        .map(|value| Some(Expr::Constant(value)))
                        .map_err(wrong);
                }
                return Ok(Some(cast_expr(bound.expr, bound.kind, to)));
            }
            Origin::Other => return Ok(Some(cast_expr(bound.expr, bound.kind, to))),
        }
        Ok(Some(bound.expr))
    }

    /// The type that all of these can have: the one that they are nearest to.
    pub(super) fn supertype(bounds: &[Bound]) -> Option<Type> {
        let typed = bounds.iter().filter(|bound| matches!(bound.origin, Origin::Other | Origin::Literal));
        let candidates: Vec<&Type> = typed.map(|bound| &bound.kind).collect();
        if candidates.is_empty() {
            return bounds
                .iter()
                .map(|bound| &bound.kind)
                .find(|kind| kind.element().is_some())
                .or(bounds.first().map(|bound| &bound.kind))
                .cloned();
        }
        let total = |kind: &Type| bounds.iter().map(|bound| bound.distance(kind)).sum::<Option<u32>>();
        let best = candidates.into_iter().filter_map(|kind| total(kind).map(|total| (total, kind)));
        best.min_by_key(|(total, _)| *total).map(|(_, kind)| kind.clone())
    }

    /// Gives operands one type.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn common(&self, bounds: Vec<Bound>, what: &str) -> Result<(Vec<Expr>, Type), SqlError> {
        let kinds: Vec<String> = bounds.iter().map(shown).collect();
        let mut distinct = kinds.clone();
        distinct.sort();
        distinct.dedup();
        let none = || {
            SqlError::query(format!(
                "No matching signature for {what}\n  Argument types: {}\n  Unable to find common supertype for templated argument <T1>\n    Input types for <T1>: {{{}}}",
                kinds.join(", "),
                distinct.join(", ")
            ))
        };
        let kind = Self::supertype(&bounds).ok_or_else(none)?;
        let exprs = bounds.into_iter().map(|bound| self.coerce(bound, &kind)?.ok_or_else(none));
        Ok((exprs.collect::<Result<Vec<_>, _>>()?, kind))
    }

    /// An expression that must be a BOOL.
    pub(super) fn bool(&self, ast: &Ast, scope: &Scope<'_>, what: &str) -> Result<Expr, SqlError> {
        let bound = self.expr(ast, scope)?;
        let kind = shown(&bound);
        let place = position(ast.span());
        self.coerce(bound, &Type::Bool)?.ok_or_else(|| {
            let message = if what.ends_with("clause") {
                format!("{what} should return type BOOL, but returns {kind}")
            } else {
                format!("No matching signature for {what}\n  Argument types: {kind}\n  Signature: BOOL")
            };
            SqlError::query(message).at(place)
        })
    }

    /// What `CAST` makes.
    pub(super) fn explicit_cast(&self, bound: Bound, to: &Type, safe: bool) -> Result<Bound, SqlError> {
        if let Origin::Undeclared(_) | Origin::Untyped = bound.origin
            && let Some(expr) = self.coerce(bound.clone(), to)?
        {
            return Ok(Bound::new(expr, to.clone()));
        }
        if !cast::is_possible(&bound.kind, to) {
            return Err(SqlError::query(format!("Invalid cast from {} to {to}", bound.kind)));
        }
        if bound.kind == *to {
            return Ok(Bound::new(bound.expr, to.clone()));
        }
        let expr = Expr::Cast { value: Box::new(bound.expr), from: bound.kind, to: to.clone(), safe };
        Ok(Bound::new(expr, to.clone()))
    }

    fn is_null(&self, operand: &Ast, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        Ok(Bound::new(Expr::IsNull(Box::new(self.expr(operand, scope)?.expr)), Type::Bool))
    }

    fn is_bool(&self, operand: &Ast, truth: bool, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let operand = self.bool(operand, scope, "operator IS")?;
        Ok(Bound::new(compare(Comparison::NotDistinct, operand, Expr::Constant(Value::Bool(truth))), Type::Bool))
    }

    fn comparison(&self, operator: Comparison, left: &Ast, right: &Ast, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let sign = match operator {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Distinct | Comparison::NotDistinct => "IS DISTINCT FROM",
        };
        let sides = vec![self.expr(left, scope)?, self.expr(right, scope)?];
        if !matches!(operator, Comparison::Distinct | Comparison::NotDistinct) {
            not_null(&[&sides[0], &sides[1]], sign)?;
        }
        let (operands, kind) = self.common(sides, &format!("operator {sign}"))?;
        if matches!(kind, Type::Json | Type::Geography | Type::Array(_)) && sign != "IS DISTINCT FROM" {
            let name = kind.base_name();
            let kinds = format!("Argument types: {kind}, {kind}");
            return Err(SqlError::query(format!(
                "No matching signature for operator {sign}\n  {kinds}\n  {name} values cannot be compared"
            )));
        }
        let mut operands = operands.into_iter();
        match (operands.next(), operands.next()) {
            (Some(left), Some(right)) => Ok(Bound::new(compare(operator, left, right), Type::Bool)),
            _ => Err(SqlError::query("A comparison has two sides")),
        }
    }

    fn binary(&self, left: &Ast, operator: &BinaryOperator, right: &Ast, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let name = match operator {
            BinaryOperator::And | BinaryOperator::Or => {
                let what = format!("operator {operator}");
                let (left, right) = (self.bool(left, scope, &what)?, self.bool(right, scope, &what)?);
                let (left, right) = (Box::new(left), Box::new(right));
                let expr =
                    if *operator == BinaryOperator::And { Expr::And(left, right) } else { Expr::Or(left, right) };
                return Ok(Bound::new(expr, Type::Bool));
            }
            BinaryOperator::Eq => return self.comparison(Comparison::Equal, left, right, scope),
            BinaryOperator::NotEq => return self.comparison(Comparison::NotEqual, left, right, scope),
            BinaryOperator::Lt => return self.comparison(Comparison::Less, left, right, scope),
            BinaryOperator::LtEq => return self.comparison(Comparison::LessOrEqual, left, right, scope),
            BinaryOperator::Gt => return self.comparison(Comparison::Greater, left, right, scope),
            BinaryOperator::GtEq => return self.comparison(Comparison::GreaterOrEqual, left, right, scope),
            BinaryOperator::Plus => "$add",
            BinaryOperator::Minus => "$subtract",
            BinaryOperator::Multiply => "$multiply",
            BinaryOperator::Divide => "$divide",
            BinaryOperator::BitwiseAnd => "$bitand",
            BinaryOperator::BitwiseOr => "$bitor",
            BinaryOperator::BitwiseXor => "$bitxor",
            BinaryOperator::StringConcat => "CONCAT",
            BinaryOperator::Modulo => return Err(SqlError::query("Syntax error: Unexpected \"%\"")),
            other => return Err(SqlError::unsupported(format_args!("the operator {other}"))),
        };
        let operands = vec![self.expr(left, scope)?, self.expr(right, scope)?];
        not_null(&[&operands[0], &operands[1]], &operator.to_string())?;
        let arrays = operands.iter().any(|bound| bound.kind.element().is_some());
        self.call_bound(if arrays && name == "CONCAT" { "$concat" } else { name }, operands, false)
    }

    fn is_in(&self, expr: &Ast, target: &InTarget, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let value = self.expr(expr, scope)?;
        match target {
            InTarget::List(list) => {
                let mut operands = vec![value];
                for element in list {
                    operands.push(self.expr(element, scope)?);
                }
                let (operands, _) = self.common(operands, "operator IN")?;
                let mut operands = operands.into_iter();
                let value = Box::new(operands.next().unwrap_or(Expr::Constant(Value::Null)));
                Ok(Bound::new(Expr::In { value, list: operands.collect() }, Type::Bool))
            }
            InTarget::Unnest(array) => {
                let array = self.expr(array, scope)?;
                self.call_bound("$in_array", vec![value, array], false)
            }
            InTarget::Subquery(query) => {
                let (expr, element) =
                    self.subquery(SubqueryKind::In(Box::new(Expr::Constant(Value::Null))), query, scope)?;
                let kind = shown(&value);
                let value = self.coerce(value, &element)?.ok_or_else(|| {
                    SqlError::query(format!("Cannot execute IN subquery with uncomparable types {kind} and {element}"))
                })?;
                let Expr::Subquery(mut subquery) = expr else { return Ok(Bound::new(expr, Type::Bool)) };
                subquery.kind = SubqueryKind::In(Box::new(value));
                Ok(Bound::new(Expr::Subquery(subquery), Type::Bool))
            }
            other => Err(SqlError::unsupported(format_args!("IN {other:?}"))),
        }
    }

    /// `[x]`, `[OFFSET(x)]`, `.name` behind an expression.
    fn access(&self, bound: Bound, access: &AccessExpr, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let index = match access {
            AccessExpr::Dot(Ast::Identifier(name)) => {
                let (expr, kind) = field(bound.expr, &bound.kind, name)?;
                return Ok(Bound::new(expr, kind));
            }
            AccessExpr::Subscript(Subscript::Index { index }) => index,
            other => return Err(SqlError::unsupported(format_args!("the access {other}"))),
        };
        let (name, index) = match index {
            Ast::Function(function) if function.name.0.len() == 1 => {
                let name = match function.name.to_string().to_ascii_uppercase().as_str() {
                    "OFFSET" => "$offset",
                    "ORDINAL" => "$ordinal",
                    "SAFE_OFFSET" => "$safe_offset",
                    "SAFE_ORDINAL" => "$safe_ordinal",
                    _ => "",
                };
                match (name, super::call::arguments(function)?.as_slice()) {
                    ("", _) => ("$offset", index),
                    (name, [argument]) => (name, *argument),
                    _ => return Err(SqlError::query("Subscript access needs one position")),
                }
            }
            index => ("$offset", index),
        };
        let place = position(index.span());
        let index = self.expr(index, scope)?;
        let name = match (&bound.kind, &index.kind) {
            (Type::Json, Type::String) => "$json_field",
            (Type::Json, _) => "$json_element",
            (Type::Array(_), _) => name,
            (other, _) => {
                let message =
                    format!("Subscript access using [{}] is not supported on values of type {other}", index.kind);
                return Err(SqlError::query(message).at(place));
            }
        };
        self.call_bound(name, vec![bound, index], false)
    }

    fn extract(&self, part: &DateTimeField, ast: &Ast, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let (operand, zone) = match ast {
            Ast::AtTimeZone { timestamp, time_zone } => (&**timestamp, self.expr(time_zone, scope)?),
            ast => (ast, Bound::literal(Value::from("UTC"), Type::String)),
        };
        let operand = self.expr(operand, scope)?;
        let name = part.to_string().to_ascii_uppercase();
        let zoned = operand.kind == Type::Timestamp;
        if let "DATE" | "DATETIME" | "TIME" = name.as_str() {
            let operands = if zoned { vec![operand, zone] } else { vec![operand] };
            return self.call_bound(&name, operands, false);
        }
        let part = self.part(&name)?;
        let of_time = super::datetime::Part::named(&name).is_some_and(super::datetime::Part::is_of_time);
        if operand.kind == Type::Date && of_time || operand.kind == Type::Time && !of_time {
            return Err(SqlError::query(format!(
                "EXTRACT from {} does not support the {name} date part",
                operand.kind
            )));
        }
        if zoned {
            self.call_bound("$extract_zoned", vec![operand, zone, part], false)
        } else {
            self.call_bound("$extract", vec![operand, part], false)
        }
    }

    fn array(&self, elements: &[Ast], scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let bounds = elements.iter().map(|element| self.expr(element, scope)).collect::<Result<Vec<_>, _>>()?;
        if bounds.is_empty() {
            let expr = Expr::Constant(Value::array([]));
            return Ok(Bound { origin: Origin::Untyped, ..Bound::new(expr, Type::Int64.array()) });
        }
        let mut kinds: Vec<String> = bounds.iter().map(shown).collect();
        kinds.dedup();
        let literal = bounds.iter().all(|bound| matches!(bound.origin, Origin::Literal | Origin::Untyped));
        let Some(kind) = Self::supertype(&bounds) else {
            let message = format!("Array elements of types {{{}}} do not have a common supertype", kinds.join(", "));
            return Err(SqlError::query(message));
        };
        if let Type::Array(_) = kind {
            return Err(SqlError::query(format!(
                "Cannot construct array with element type {kind} because nested arrays are not supported"
            )));
        }
        let (exprs, kind) = self.common(bounds, "ARRAY")?;
        let expr = match constants(&exprs) {
            Some(values) => Expr::Constant(Value::array(values)),
            None => Expr::Array(exprs),
        };
        Ok(Bound { origin: if literal { Origin::Literal } else { Origin::Other }, ..Bound::new(expr, kind.array()) })
    }

    fn record(
        &self,
        values: &[Ast],
        typed: &[sqlparser::ast::StructField],
        scope: &Scope<'_>,
    ) -> Result<Bound, SqlError> {
        let (mut parts, mut fields) = (Vec::new(), Vec::new());
        if !typed.is_empty() && typed.len() != values.len() {
            return Err(SqlError::query(format!(
                "STRUCT type has {} fields but constructor call has {} fields",
                typed.len(),
                values.len()
            )));
        }
        for (index, value) in values.iter().enumerate() {
            let (name, value) = match value {
                Ast::Named { expr, name } => (name.value.as_str(), &**expr),
                Ast::Identifier(name) if typed.is_empty() => (name.value.as_str(), value),
                Ast::CompoundIdentifier(path) if typed.is_empty() => {
                    (path.last().map_or("", |name| &name.value), value)
                }
                value => ("", value),
            };
            let bound = self.expr(value, scope)?;
            match typed.get(index) {
                Some(field) => {
                    let kind = self.data_type(&field.field_type)?;
                    let from = shown(&bound);
                    let expr = self.coerce(bound, &kind)?.ok_or_else(|| {
                        SqlError::query(format!(
                            "Struct constructor field {} has type {from} which does not coerce to {kind}",
                            index + 1
                        ))
                    })?;
                    fields.push(Field::new(field.field_name.as_ref().map_or("", |name| &name.value), kind.clone()));
                    parts.push(Bound::new(expr, kind));
                }
                None => {
                    fields.push(Field::new(name, bound.kind.clone()));
                    parts.push(bound);
                }
            }
        }
        let literal =
            typed.is_empty() && parts.iter().all(|part| matches!(part.origin, Origin::Literal | Origin::Untyped));
        let origin = if literal { Origin::Literal } else { Origin::Other };
        let expr = record_expr(parts.iter().map(|part| part.expr.clone()).collect());
        let parts = if typed.is_empty() { parts } else { Vec::new() };
        Ok(Bound { origin, fields: parts, ..Bound::new(expr, Type::record(fields)) })
    }
}

/// The word NULL has no place beside most operators.
fn not_null(operands: &[&Bound], operator: &str) -> Result<(), SqlError> {
    match operands.iter().any(|bound| bound.origin == Origin::Untyped && bound.kind.element().is_none()) {
        true => Err(SqlError::query(format!("Operands of {operator} cannot be literal NULL"))),
        false => Ok(()),
    }
}

/// The values of expressions that are all constants.
fn constants(exprs: &[Expr]) -> Option<Vec<Value>> {
    exprs.iter().map(|expr| if let Expr::Constant(value) = expr { Some(value.clone()) } else { None }).collect()
}

fn record_expr(exprs: Vec<Expr>) -> Expr {
    match constants(&exprs) {
        Some(values) => Expr::Constant(Value::record(values)),
        None => Expr::Struct(exprs),
    }
}

/// A type as errors show it.
pub(super) fn shown(bound: &Bound) -> String {
    if bound.origin == Origin::Untyped { "NULL".to_owned() } else { bound.kind.to_string() }
}

/// A comparison of two expressions of one type.
pub(super) fn compare(operator: Comparison, left: Expr, right: Expr) -> Expr {
    Expr::Compare { operator, left: Box::new(left), right: Box::new(right) }
}

fn negated(bound: Bound) -> Bound {
    Bound::new(Expr::Not(Box::new(bound.expr)), Type::Bool)
}

/// A conversion that can't fail for the type, only for a value.
pub(super) fn cast_expr(expr: Expr, from: Type, to: &Type) -> Expr {
    if from == *to {
        return expr;
    }
    Expr::Cast { value: Box::new(expr), from, to: to.clone(), safe: false }
}
