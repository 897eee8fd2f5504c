//! Names: what is visible where, and what each stands for.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use sqlparser::ast::Ident;

use super::aggregate::Aggregate;
use super::error::{Position, SqlError};
use super::functions;
use super::lexer::position;
use super::plan::{Expr, Function, Window};
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

/// A column that can be named.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Empty when it can't be named.
    pub(super) name: Arc<str>,
    /// The table alias that it belongs to; empty for none.
    pub(super) of: Arc<str>,
    pub(super) expr: Expr,
    pub(super) kind: Type,
    /// Not among `*`: a pseudo column, or a side of a column of `USING`.
    pub(super) hidden: bool,
    /// Only found behind its table's alias: a side of a column of `USING`.
    pub(super) qualified: bool,
}

/// A table alias.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) name: Arc<str>,
    /// What the alias alone stands for, when that is a value: an element of an array.
    pub(super) value: Option<(Expr, Type)>,
}

/// What a query block can name.
#[derive(Default)]
pub(super) struct Scope<'s> {
    pub(super) columns: Vec<Column>,
    pub(super) ranges: Vec<Range>,
    /// The block outside this one.
    pub(super) outer: Option<&'s Scope<'s>>,
    /// What the block groups by, once that is known.
    pub(super) grouping: Option<Vec<(Expr, Type)>>,
    /// Whether rows are seen as they come from `FROM`, not as groups: inside aggregates.
    pub(super) before_groups: Cell<bool>,
    /// The outputs' names, where they can be used.
    pub(super) aliases: RefCell<Vec<(Arc<str>, Expr, Type)>>,
    /// Aggregates and windows, which share slots.
    pub(super) calls: RefCell<Calls>,
    /// The clause that is bound, for errors; aggregates and windows are refused in some.
    pub(super) clause: Cell<Clause>,
}

/// Aggregates and windows of a block.
#[derive(Default)]
pub(super) struct Calls {
    /// The next free slot.
    pub(super) next: usize,
    pub(super) aggregates: Vec<(usize, Aggregate)>,
    pub(super) windows: Vec<Window>,
}

/// A part of a query block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Clause {
    #[default]
    From,
    Where,
    GroupBy,
    Select,
    Having,
    Qualify,
    OrderBy,
    Aggregate,
    Window,
}

impl Clause {
    /// As errors name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::From => "FROM clause",
            Self::Where => "WHERE clause",
            Self::GroupBy => "GROUP BY",
            Self::Select => "SELECT list",
            Self::Having => "HAVING clause",
            Self::Qualify => "QUALIFY clause",
            Self::OrderBy => "ORDER BY clause",
            Self::Aggregate => "aggregate function",
            Self::Window => "analytic function",
        }
    }
}

/// The field of a value: its expression and its type.
///
/// # Errors
/// When the type has no such field.
pub(super) fn field(expr: Expr, kind: &Type, name: &Ident) -> Result<(Expr, Type), SqlError> {
    let place = position(name.span);
    let fields = match kind {
        Type::Struct(fields) => fields,
        Type::Json => {
            let signature = functions::signatures("$json_field").pop();
            let call = signature.map(|signature| Function { name: signature.name, eval: signature.eval, nulls: false });
            let Some(function) = call else { return Err(SqlError::unsupported("fields of JSON")) };
            let arguments = vec![expr, Expr::Constant(Value::from(name.value.as_str()))];
            return Ok((Expr::Call { function, arguments, safe: false }, Type::Json));
        }
        other => {
            return Err(
                SqlError::query(format!("Cannot access field {} on a value with type {other}", name.value)).at(place)
            );
        }
    };
    let mut found = fields.iter().enumerate().filter(|(_, field)| field.name.eq_ignore_ascii_case(&name.value));
    match (found.next(), found.next()) {
        (Some((index, field)), None) => Ok((Expr::Field(Box::new(expr), index), field.kind.clone())),
        (Some(_), Some(_)) => Err(SqlError::query(format!("Struct field name {} is ambiguous", name.value)).at(place)),
        (None, _) => Err(SqlError::query(format!("Field name {} does not exist in {kind}", name.value)).at(place)),
    }
}

/// `; Did you mean x?` when a name is near.
pub(super) fn suggestion<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let near =
        |known: &&str| strsim::levenshtein(&name.to_lowercase(), &known.to_lowercase()) <= name.chars().count() / 3;
    let best = known.filter(|known| !known.is_empty()).filter(near);
    let best = best.min_by_key(|known| strsim::levenshtein(&name.to_lowercase(), &known.to_lowercase()));
    best.map_or(String::new(), |best| format!("; Did you mean {best}?"))
}

/// An expression as an inner block sees it.
fn seen_from(expr: &Expr, depth: usize) -> Expr {
    let mut expr = expr.clone();
    if depth > 0 {
        move_out(&mut expr, depth);
    }
    expr
}

fn move_out(expr: &mut Expr, by: usize) {
    match expr {
        Expr::Column { depth, .. } => *depth += by,
        Expr::Subquery(_) => {
            *expr = Expr::Refused(SqlError::unsupported("the name of a subquery inside another query"))
        }
        other => other.children_mut().into_iter().for_each(|child| move_out(child, by)),
    }
}

impl<'s> Scope<'s> {
    /// A block inside another.
    pub(super) fn inside(outer: Option<&'s Scope<'s>>) -> Self {
        Self { outer, ..Self::default() }
    }

    /// What a path of names stands for, here or in a block outside.
    ///
    /// # Errors
    /// `Unrecognized name`, an ambiguous name, or a column that isn't grouped.
    pub(super) fn resolve(&self, path: &[Ident]) -> Result<(Expr, Type), SqlError> {
        let (mut scope, mut depth) = (self, 0);
        loop {
            if let Some((expr, kind)) = scope.find(path)? {
                return Ok((seen_from(&expr, depth), kind));
            }
            match scope.outer {
                Some(outer) => (scope, depth) = (outer, depth + 1),
                None => break,
            }
        }
        let first = &path[0];
        let mut scopes = std::iter::successors(Some(self), |scope| scope.outer);
        let mut names: Vec<Arc<str>> = Vec::new();
        scopes.by_ref().for_each(|scope| {
            names.extend(scope.columns.iter().map(|column| Arc::clone(&column.name)));
            names.extend(scope.ranges.iter().map(|range| Arc::clone(&range.name)));
        });
        let hint = suggestion(&first.value, names.iter().map(|name| &**name));
        Err(SqlError::query(format!("Unrecognized name: {}{hint}", first.value)).at(position(first.span)))
    }

    /// Whether the first name of a path is a table alias or a column, here or outside.
    pub(super) fn knows(&self, name: &str) -> bool {
        let here = self.ranges.iter().any(|range| range.name.eq_ignore_ascii_case(name))
            || self.columns.iter().any(|column| !column.qualified && column.name.eq_ignore_ascii_case(name));
        here || self.outer.is_some_and(|outer| outer.knows(name))
    }

    fn find(&self, path: &[Ident]) -> Result<Option<(Expr, Type)>, SqlError> {
        let first = &path[0].value;
        let place = position(path[0].span);
        if !self.before_groups.get() {
            let aliases = self.aliases.borrow();
            let mut found = aliases.iter().filter(|(name, ..)| name.eq_ignore_ascii_case(first));
            if let Some((_, expr, kind)) = found.next() {
                if found.next().is_some() && self.columns.iter().all(|column| !column.name.eq_ignore_ascii_case(first))
                {
                    return Err(SqlError::query(format!("Column name {first} is ambiguous")).at(place));
                }
                let path = path[1..].iter();
                return path
                    .into_iter()
                    .try_fold((expr.clone(), kind.clone()), |(expr, kind), name| field(expr, &kind, name))
                    .map(Some);
            }
        }
        let Some((expr, kind, used)) = self.base(path)? else { return Ok(None) };
        let (mut expr, mut kind) = (expr, kind);
        let mut key = self.grouped(&expr);
        let mut through_key = false;
        for name in &path[used..] {
            if let Some(key) = key.take() {
                (expr, through_key) = (key, true);
            }
            (expr, kind) = field(expr, &kind, name)?;
            if !through_key {
                key = self.grouped(&expr);
            }
        }
        if let Some(key) = key {
            return Ok(Some((key, kind)));
        }
        if through_key || self.grouping.is_none() || self.before_groups.get() {
            return Ok(Some((expr, kind)));
        }
        let shown = path.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".");
        let is_range = self.ranges.iter().any(|range| range.name.eq_ignore_ascii_case(first));
        let shown = match path {
            [_] if is_range => format!("table alias {shown}"),
            [_] => format!("column {shown}"),
            _ => shown,
        };
        Err(ungrouped(self.clause.get().name(), &shown, place))
    }

    /// The column or the table alias that a path begins with, and how many names that took.
    fn base(&self, path: &[Ident]) -> Result<Option<(Expr, Type, usize)>, SqlError> {
        let first = &path[0].value;
        let place = position(path[0].span);
        if let Some(range) = self.ranges.iter().find(|range| range.name.eq_ignore_ascii_case(first)) {
            if let Some((expr, kind)) = &range.value {
                return Ok(Some((expr.clone(), kind.clone(), 1)));
            }
            let own = self.columns.iter().filter(|column| column.of == range.name);
            let Some(name) = path.get(1) else {
                // The row itself.
                let visible: Vec<&Column> = own.filter(|column| !column.hidden || column.qualified).collect();
                let kind = Type::record(
                    visible.iter().map(|column| crate::bigquery::schema::Field::new(&column.name, column.kind.clone())),
                );
                return Ok(Some((
                    Expr::Struct(visible.into_iter().map(|column| column.expr.clone()).collect()),
                    kind,
                    1,
                )));
            };
            let mut found = own.clone().filter(|column| column.name.eq_ignore_ascii_case(&name.value));
            return match (found.next(), found.next()) {
                (Some(column), None) => Ok(Some((column.expr.clone(), column.kind.clone(), 2))),
                (Some(_), Some(_)) => Err(ambiguous(&name.value, position(name.span))),
                (None, _) => {
                    let message = format!("Name {} not found inside {}", name.value, range.name);
                    Err(SqlError::query(message).at(position(name.span)))
                }
            };
        }
        let mut found =
            self.columns.iter().filter(|column| !column.qualified && column.name.eq_ignore_ascii_case(first));
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(Some((column.expr.clone(), column.kind.clone(), 1))),
            (Some(_), Some(_)) => Err(ambiguous(first, place)),
            (None, _) => Ok(None),
        }
    }

    /// The slot of a group's key, when an expression is one.
    pub(super) fn grouped(&self, expr: &Expr) -> Option<Expr> {
        if self.before_groups.get() {
            return None;
        }
        let keys = self.grouping.as_ref()?;
        keys.iter().position(|(key, _)| key == expr).map(|slot| Expr::Column { depth: 0, slot })
    }

    /// A slot for an aggregate or a window.
    pub(super) fn new_slot(&self) -> usize {
        let mut calls = self.calls.borrow_mut();
        calls.next += 1;
        calls.next - 1
    }
}

fn ambiguous(name: &str, place: Option<Position>) -> SqlError {
    SqlError::query(format!("Column name {name} is ambiguous")).at(place)
}

/// The error for a column that a group has no single value of.
pub(super) fn ungrouped(clause: &str, name: &str, place: Option<Position>) -> SqlError {
    SqlError::query(format!("{clause} expression references {name} which is neither grouped nor aggregated")).at(place)
}
