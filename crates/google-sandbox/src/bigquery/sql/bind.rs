//! Binds queries: what they read, what they group by, what they put out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range as Slots;
use std::sync::Arc;

use sqlparser::ast::{
    self, Distinct, Expr as Ast, GroupByExpr, Ident, JoinConstraint, JoinOperator, LimitClause, NamedWindowExpr,
    ObjectName, OrderByExpr, OrderByKind, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    SetQuantifier, Spanned, TableAlias, TableFactor, TableWithJoins, ValueTableMode, WildcardAdditionalOptions,
    WindowSpec,
};

use super::catalog::{Source, Table, TableId};
use super::error::{Position, SqlError};
use super::expr::{Bound, Origin};
use super::lexer::position;
use super::plan::{
    Body, Common, Expr, From, Group, Input, Join, JoinKind, Order, Part, Query, Scan, Select, SetOperation, Statement,
    Subquery, SubqueryKind,
};
use super::run::{Env, Run};
use super::scope::{Clause, Column, Range, Scope, ungrouped};
use super::{Parameters, Session, aggregate, call, lexer, parse, usage};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::value::Value;

/// Expressions inside expressions: as many as the stack holds.
const DEPTH: usize = 1_000;

/// Views inside views.
const VIEWS: usize = 16;

/// A column of a query's result; the name is empty when there is none.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) name: Arc<str>,
    pub(super) kind: Type,
}

/// A query block, its columns, and what its rows are ordered by.
type Block = (Select, Vec<Output>, Vec<Order<usize>>);

/// A table that `WITH` names.
#[derive(Clone)]
struct Cte {
    name: String,
    index: usize,
    outputs: Arc<[Output]>,
}

/// What binding has found so far.
#[derive(Default)]
pub(super) struct State {
    pub(super) scans: Vec<Scan>,
    pub(super) reads: Vec<Read>,
    pub(super) commons: Vec<Common>,
    pub(super) views: Vec<TableId>,
    pub(super) routines: BTreeSet<TableId>,
    /// Parameters without a value, and their types once something asks for one.
    pub(super) undeclared: Vec<(String, Option<Type>)>,
    positional: usize,
    constants: usize,
    pub(super) changes_with_time: bool,
    windows: Vec<Vec<ast::NamedWindowDefinition>>,
    ctes: Vec<Vec<Cte>>,
    view_depth: usize,
}

/// What a scan reads, by name.
pub(super) struct Read {
    pub(super) id: TableId,
    pub(super) through_view: bool,
    /// The column that must be filtered by, as long as no filter was seen.
    unfiltered: Option<Arc<str>>,
}

/// How far binding was, to go back to.
pub(super) struct Mark([usize; 7]);

/// Binds one statement.
pub(super) struct Binder<'a> {
    pub(super) session: &'a Session<'a>,
    state: RefCell<State>,
    depth: Cell<usize>,
}

/// An expression that is being bound.
pub(super) struct Level<'b>(&'b Cell<usize>);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What a block groups by.
struct Keys {
    keys: Vec<(Expr, Type)>,
    /// The key that each item is.
    items: Vec<Option<usize>>,
    /// Which keys each grouping set has.
    sets: Vec<Vec<bool>>,
}

impl Keys {
    fn add(&mut self, bound: Bound, item: Option<usize>, place: Option<Position>) -> Result<usize, SqlError> {
        if let Type::Json | Type::Geography | Type::Array(_) = bound.kind {
            let message = format!("Grouping by expressions of type {} is not allowed", bound.kind.base_name());
            return Err(SqlError::query(message).at(place));
        }
        let known = self.keys.iter().position(|(key, _)| *key == bound.expr);
        let key = known.unwrap_or_else(|| {
            self.keys.push((bound.expr, bound.kind));
            self.keys.len() - 1
        });
        if let Some(item) = item {
            self.items[item] = Some(key);
        }
        Ok(key)
    }
}

/// A select item with its name; a column of `*` is bound already.
enum Item<'a> {
    Ast(&'a Ast, Arc<str>),
    Column(Column, Option<Position>),
}

impl Item<'_> {
    fn name(&self) -> Arc<str> {
        match self {
            Self::Ast(_, name) => Arc::clone(name),
            Self::Column(column, _) => Arc::clone(&column.name),
        }
    }
}

impl<'a> Binder<'a> {
    pub(super) fn new(session: &'a Session<'a>) -> Self {
        Self { session, state: RefCell::default(), depth: Cell::new(0) }
    }

    /// Binds a whole statement.
    pub(super) fn statement(self, query: &ast::Query) -> Result<(Statement, Vec<Output>, State), SqlError> {
        let (query, outputs) = self.query(query, None)?;
        let mut state = self.state.into_inner();
        if let Some((id, column)) = state.reads.iter().find_map(|read| Some((&read.id, read.unfiltered.as_ref()?))) {
            return Err(SqlError::query(format!(
                "Cannot query over table '{id}' without a filter over column(s) '{column}' that can be used for partition elimination"
            )));
        }
        let mut statement = Statement {
            query,
            scans: std::mem::take(&mut state.scans),
            commons: std::mem::take(&mut state.commons),
            constants: state.constants,
        };
        usage::prune(&mut statement);
        Ok((statement, outputs, state))
    }

    /// One expression deeper, until the guard is dropped.
    ///
    /// # Errors
    /// When that is too deep.
    pub(super) fn deeper(&self) -> Result<Level<'_>, SqlError> {
        if self.depth.get() == DEPTH {
            return Err(SqlError::unsupported(format_args!("more than {DEPTH} nested expressions")));
        }
        self.depth.set(self.depth.get() + 1);
        Ok(Level(&self.depth))
    }

    /// How far binding is.
    pub(super) fn mark(&self) -> Mark {
        let state = self.state.borrow();
        Mark([
            state.scans.len(),
            state.reads.len(),
            state.commons.len(),
            state.views.len(),
            state.undeclared.len(),
            state.positional,
            state.constants,
        ])
    }

    /// Forgets what was found since.
    pub(super) fn reset(&self, mark: Mark) {
        let mut state = self.state.borrow_mut();
        let Mark([scans, reads, commons, views, undeclared, positional, constants]) = mark;
        state.scans.truncate(scans);
        state.reads.truncate(reads);
        state.commons.truncate(commons);
        state.views.truncate(views);
        state.undeclared.truncate(undeclared);
        (state.positional, state.constants) = (positional, constants);
    }

    /// The result depends on the clock.
    pub(super) fn changes_with_time(&self) {
        self.state.borrow_mut().changes_with_time = true;
    }

    /// The statement calls a routine.
    pub(super) fn uses_routine(&self, id: TableId) {
        self.state.borrow_mut().routines.insert(id);
    }

    /// The window of that name in the block that is bound.
    pub(super) fn find_window(&self, name: &str) -> Option<WindowSpec> {
        let state = self.state.borrow();
        let definitions = state.windows.last()?;
        let found = definitions.iter().find(|definition| definition.0.value.eq_ignore_ascii_case(name))?;
        Some(match &found.1 {
            NamedWindowExpr::WindowSpec(spec) => spec.clone(),
            NamedWindowExpr::NamedWindow(other) => WindowSpec {
                window_name: Some(other.clone()),
                partition_by: Vec::new(),
                order_by: Vec::new(),
                window_frame: None,
            },
        })
    }

    /// `@name` or `?`.
    pub(super) fn parameter(&self, written: &str) -> Result<Bound, SqlError> {
        if written.starts_with("@@") {
            return Err(SqlError::unsupported(format_args!("the system variable {written}")));
        }
        let mut state = self.state.borrow_mut();
        let (given, name) = match (self.session.parameters, written.strip_prefix('@')) {
            (Parameters::Named(given), Some(name)) => {
                let given = given.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
                (given.map(|(_, kind, value)| (kind, value)), name.to_owned())
            }
            (Parameters::Positional(given), None) => {
                state.positional += 1;
                (given.get(state.positional - 1).map(|(kind, value)| (kind, value)), format!("?{}", state.positional))
            }
            (Parameters::Named(given), None) if given.is_empty() => {
                state.positional += 1;
                (None, format!("?{}", state.positional))
            }
            (Parameters::Positional(given), Some(name)) if given.is_empty() => (None, name.to_owned()),
            (Parameters::Named(_), None) => return Err(SqlError::query("Positional parameters are not supported")),
            (Parameters::Positional(_), Some(_)) => return Err(SqlError::query("Named parameters are not supported")),
        };
        if let Some((kind, value)) = given {
            return Ok(Bound::literal(value.clone(), kind.clone()));
        }
        let missing = match written.strip_prefix('@') {
            Some(name) => format!("Query parameter '{name}' not found"),
            None => "Query parameter number not found: fewer values than question marks".to_owned(),
        };
        if !state.undeclared.iter().any(|(known, _)| *known == name) {
            state.undeclared.push((name.clone(), None));
        }
        let known = state.undeclared.iter().find(|(known, _)| *known == name).and_then(|(_, kind)| kind.clone());
        let expr = Expr::Refused(SqlError::query(missing));
        Ok(match known {
            Some(kind) => Bound { origin: Origin::Undeclared(name), ..Bound::new(expr, kind) },
            None => Bound { origin: Origin::Undeclared(name), ..Bound::new(expr, Type::Int64) },
        })
    }

    /// A parameter without a value must have this type.
    pub(super) fn infer(&self, name: &str, kind: &Type) {
        let mut state = self.state.borrow_mut();
        if let Some((_, known)) = state.undeclared.iter_mut().find(|(known, _)| known == name) {
            known.get_or_insert_with(|| kind.clone());
        }
    }

    /// A number of rows: a literal or a parameter.
    pub(super) fn count(&self, ast: &Ast, scope: &Scope<'_>) -> Result<u64, SqlError> {
        let place = position(ast.span());
        let bound = self.expr(ast, scope)?;
        let undeclared = matches!(bound.origin, Origin::Undeclared(_));
        match self.coerce(bound, &Type::Int64)? {
            Some(Expr::Constant(Value::Int64(number))) => u64::try_from(number)
                .map_err(|_| SqlError::query("Limit requires non-negative count and offset").at(place)),
            Some(_) if undeclared => Ok(0),
            _ => Err(SqlError::query("Syntax error: LIMIT and OFFSET take integer literals and parameters").at(place)),
        }
    }

    /// A query inside an expression, and the type of its column.
    pub(super) fn subquery(
        &self,
        kind: SubqueryKind,
        ast: &ast::Query,
        scope: &Scope<'_>,
    ) -> Result<(Expr, Type), SqlError> {
        let (query, outputs) = self.query(ast, Some(scope))?;
        if outputs.len() != 1 && !matches!(kind, SubqueryKind::Exists) {
            let what = match kind {
                SubqueryKind::Array => "ARRAY subquery",
                SubqueryKind::In(_) => "Subquery of type IN",
                _ => "Scalar subquery",
            };
            let message = match kind {
                SubqueryKind::In(_) => format!("{what} must have only one output column"),
                _ => format!(
                    "{what} cannot have more than one column unless using SELECT AS STRUCT to build STRUCT values"
                ),
            };
            return Err(SqlError::query(message).at(position(ast.span())));
        }
        let constant = (!usage::is_correlated(&query)).then(|| {
            let mut state = self.state.borrow_mut();
            state.constants += 1;
            state.constants - 1
        });
        let element = outputs.first().map_or(Type::Int64, |output| output.kind.clone());
        Ok((Expr::Subquery(Subquery { kind, query: Box::new(query), constant }), element))
    }

    /// Binds a query.
    pub(super) fn query(&self, ast: &ast::Query, outer: Option<&Scope<'_>>) -> Result<(Query, Vec<Output>), SqlError> {
        if !ast.pipe_operators.is_empty() {
            return Err(SqlError::unsupported("pipe syntax"));
        }
        if ast.fetch.is_some() || !ast.locks.is_empty() || ast.for_clause.is_some() || ast.format_clause.is_some() {
            return Err(SqlError::query("Syntax error: this clause is not one of GoogleSQL's"));
        }
        let depth = self.state.borrow().ctes.len();
        if let Some(with) = &ast.with {
            for cte in &with.cte_tables {
                self.common_table(cte, with.recursive)?;
            }
        }
        let bound = self.query_body(ast, outer);
        self.state.borrow_mut().ctes.truncate(depth);
        bound
    }

    fn common_table(&self, cte: &ast::Cte, recursive: bool) -> Result<(), SqlError> {
        let name = cte.alias.name.value.clone();
        let keep = |binder: &Self, common: Common, outputs: Vec<Output>| {
            let mut state = binder.state.borrow_mut();
            state.commons.push(common);
            let index = state.commons.len() - 1;
            state.ctes.push(vec![Cte { name: name.clone(), index, outputs: outputs.into() }]);
        };
        let union = match cte.query.body.as_ref() {
            SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } if recursive => {
                Some((left, set_quantifier, right))
            }
            _ => None,
        };
        let Some((first, quantifier, step)) = union else {
            let (query, outputs) = self.query(&cte.query, None)?;
            keep(self, Common { query, once: false, recursion: None }, outputs);
            return Ok(());
        };
        let (query, outputs) = self.set_input(first, None)?;
        let kinds: Vec<Type> = outputs.iter().map(|output| output.kind.clone()).collect();
        keep(self, Common { query, once: false, recursion: None }, outputs);
        let index = self.state.borrow().commons.len() - 1;
        let (step, found) = self.set_input(step, None)?;
        if found.len() != kinds.len() || found.iter().zip(&kinds).any(|(found, kind)| found.kind != *kind) {
            return Err(SqlError::query(format!(
                "The recursive term of {} has other column types than its base term",
                cte.alias.name.value
            )));
        }
        let distinct = matches!(quantifier, SetQuantifier::Distinct);
        self.state.borrow_mut().commons[index].recursion = Some((step, distinct));
        Ok(())
    }

    fn query_body(&self, ast: &ast::Query, outer: Option<&Scope<'_>>) -> Result<(Query, Vec<Output>), SqlError> {
        let keys: &[OrderByExpr] = match ast.order_by.as_ref().map(|order| &order.kind) {
            None => &[],
            Some(OrderByKind::Expressions(keys)) => keys,
            Some(OrderByKind::All(_)) => return Err(SqlError::query("Syntax error: Unexpected keyword ALL")),
        };
        let (body, outputs, order) = match ast.body.as_ref() {
            SetExpr::Select(select) => {
                let (select, outputs, order) = self.select(select, keys, outer)?;
                (Body::Select(Box::new(select)), outputs, order)
            }
            body => {
                let (body, outputs) = match body {
                    SetExpr::Query(query) => {
                        let (query, outputs) = self.query(query, outer)?;
                        (Body::Query(Box::new(query)), outputs)
                    }
                    SetExpr::SetOperation { .. } => self.set_operation(body, outer)?,
                    other => return Err(SqlError::unsupported(format_args!("the query {other}"))),
                };
                let order = keys.iter().map(|key| self.output_key(key, &outputs)).collect::<Result<Vec<_>, _>>()?;
                (body, outputs, order)
            }
        };
        let scope = Scope::inside(outer);
        let (limit, offset) = match &ast.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(other) => return Err(SqlError::query(format!("Syntax error: Unexpected {other}"))),
        };
        let limit = limit.map(|limit| self.count(limit, &scope)).transpose()?;
        let offset = offset.map_or(Ok(0), |offset| self.count(offset, &scope))?;
        Ok((Query { body, order, width: outputs.len(), limit, offset }, outputs))
    }

    /// A key of the order of a set operation: one of its columns.
    fn output_key(&self, key: &OrderByExpr, outputs: &[Output]) -> Result<Order<usize>, SqlError> {
        let place = position(key.expr.span());
        let index = match &key.expr {
            Ast::Identifier(name) => outputs
                .iter()
                .position(|output| output.name.eq_ignore_ascii_case(&name.value))
                .ok_or_else(|| SqlError::query(format!("Unrecognized name: {}", name.value)).at(place))?,
            other => ordinal(other, outputs.len(), "ORDER BY")?
                .ok_or_else(|| SqlError::unsupported("an expression in ORDER BY after a set operation"))?,
        };
        Ok(call::directed(index, key))
    }

    fn set_input(&self, ast: &SetExpr, outer: Option<&Scope<'_>>) -> Result<(Query, Vec<Output>), SqlError> {
        let (body, outputs) = match ast {
            SetExpr::Select(select) => {
                let (select, outputs, _) = self.select(select, &[], outer)?;
                (Body::Select(Box::new(select)), outputs)
            }
            SetExpr::Query(query) => return self.query(query, outer),
            SetExpr::SetOperation { .. } => self.set_operation(ast, outer)?,
            other => return Err(SqlError::unsupported(format_args!("the query {other}"))),
        };
        Ok((Query { body, order: Vec::new(), width: outputs.len(), limit: None, offset: 0 }, outputs))
    }

    fn set_operation(&self, ast: &SetExpr, outer: Option<&Scope<'_>>) -> Result<(Body, Vec<Output>), SqlError> {
        let SetExpr::SetOperation { op, set_quantifier, .. } = ast else {
            return Err(SqlError::unsupported(format_args!("the query {ast}")));
        };
        let (operation, name) = match op {
            SetOperator::Union => (SetOperation::Union, "UNION"),
            SetOperator::Intersect => (SetOperation::Intersect, "INTERSECT"),
            SetOperator::Except | SetOperator::Minus => (SetOperation::Except, "EXCEPT"),
        };
        let distinct = match set_quantifier {
            SetQuantifier::All => false,
            SetQuantifier::Distinct => true,
            SetQuantifier::None => {
                let message = format!("Syntax error: Expected keyword ALL or keyword DISTINCT after {name}");
                return Err(SqlError::query(message).at(position(ast.span())));
            }
            other => return Err(SqlError::unsupported(format_args!("{name} {other}"))),
        };
        let name = format!("{name} {}", if distinct { "DISTINCT" } else { "ALL" });
        // A chain of the same operation has all its inputs side by side.
        let mut asts = Vec::new();
        let mut rest = ast;
        while let SetExpr::SetOperation { left, op: inner, set_quantifier: quantifier, right } = rest {
            if inner != op || quantifier != set_quantifier || operation != SetOperation::Union && !asts.is_empty() {
                break;
            }
            asts.push(&**right);
            rest = left;
        }
        asts.push(rest);
        asts.reverse();
        let mut bound = Vec::new();
        for ast in asts {
            bound.push((self.set_input(ast, outer)?, position(ast.span())));
        }
        let outputs = bound[0].0.1.clone();
        for (index, ((_, found), place)) in bound.iter().enumerate() {
            if found.len() != outputs.len() {
                let columns = |count: usize| format!("{count} column{}", if count == 1 { "" } else { "s" });
                return Err(SqlError::query(format!(
                    "Queries in {name} have mismatched column count; query 1 has {}, query {} has {}",
                    columns(outputs.len()),
                    index + 1,
                    columns(found.len())
                ))
                .at(*place));
            }
        }
        let mut kinds = Vec::new();
        for column in 0..outputs.len() {
            let bounds: Vec<Bound> =
                bound.iter().map(|((query, outputs), _)| column_of(query, outputs, column)).collect();
            let place = bound.get(1).and_then(|(_, place)| *place);
            let kind = Self::supertype(&bounds).ok_or_else(|| {
                let shown = bounds.iter().map(|bound| bound.kind.to_string()).collect::<Vec<_>>().join(", ");
                SqlError::query(format!("Column {} in {name} has incompatible types: {shown}", column + 1)).at(place)
            })?;
            kinds.push(kind);
        }
        let inputs = bound.into_iter().map(|((query, found), _)| {
            let casts = found
                .iter()
                .zip(&kinds)
                .map(|(output, kind)| (output.kind != *kind).then(|| (output.kind.clone(), kind.clone())));
            Input { casts: casts.collect(), query }
        });
        let inputs = inputs.collect();
        let outputs = outputs.into_iter().zip(kinds).map(|(output, kind)| Output { kind, ..output }).collect();
        Ok((Body::Set { operation, distinct, inputs }, outputs))
    }

    fn select(&self, ast: &ast::Select, order: &[OrderByExpr], outer: Option<&Scope<'_>>) -> Result<Block, SqlError> {
        self.state.borrow_mut().windows.push(ast.named_window.clone());
        let bound = self.select_parts(ast, order, outer);
        self.state.borrow_mut().windows.pop();
        bound
    }

    fn select_parts(
        &self,
        ast: &ast::Select,
        order: &[OrderByExpr],
        outer: Option<&Scope<'_>>,
    ) -> Result<Block, SqlError> {
        if ast.top.is_some()
            || ast.into.is_some()
            || ast.prewhere.is_some()
            || !ast.lateral_views.is_empty()
            || ast.exclude.is_some()
        {
            return Err(SqlError::query("Syntax error: this clause is not one of GoogleSQL's"));
        }
        if matches!(ast.flavor, ast::SelectFlavor::FromFirst | ast::SelectFlavor::FromFirstNoSelect) {
            return Err(SqlError::unsupported("queries that begin with FROM"));
        }
        let mut scope = Scope::inside(outer);
        let mut from = self.from(&ast.from, &mut scope)?;
        let slots = scope.calls.borrow().next;
        if from.is_none() && ast.selection.is_some() {
            return Err(SqlError::query("Query without FROM clause cannot have a WHERE clause")
                .at(ast.selection.as_ref().and_then(|clause| position(clause.span()))));
        }
        scope.clause.set(Clause::Where);
        let mut filter = ast.selection.as_ref().map(|filter| self.bool(filter, &scope, "WHERE clause")).transpose()?;
        if let Some(from) = &mut from {
            filter = self.filter_scans(from, filter);
        }
        let items = self.items(ast, &scope)?;
        if ast.projection.is_empty() {
            return Err(SqlError::query("Syntax error: SELECT list must not be empty"));
        }
        scope.clause.set(Clause::Select);
        let grouped = self.is_grouped(ast, &items, order, &scope);
        let (mut sets, mut item_keys) = (Vec::new(), vec![None; items.len()]);
        if grouped {
            scope.clause.set(Clause::GroupBy);
            let keys;
            Keys { keys, items: item_keys, sets } = self.group_keys(&ast.group_by, &items, &scope, slots)?;
            *scope.calls.borrow_mut() = super::scope::Calls { next: keys.len(), ..Default::default() };
            scope.grouping = Some(keys);
        }
        scope.clause.set(Clause::Select);
        let mut exprs = Vec::new();
        let mut outputs = Vec::new();
        for (item, key) in items.iter().zip(item_keys) {
            let (bound, name) = match (key, &scope.grouping) {
                (Some(slot), Some(keys)) => {
                    (Bound::new(Expr::Column { depth: 0, slot }, keys[slot].1.clone()), item.name())
                }
                _ => self.item(item, &scope)?,
            };
            outputs.push(Output { name, kind: bound.kind });
            exprs.push(bound.expr);
        }
        let aliases = outputs.iter().zip(&exprs).filter(|(output, _)| !output.name.is_empty());
        let aliases: Vec<_> =
            aliases.map(|(output, expr)| (Arc::clone(&output.name), expr.clone(), output.kind.clone())).collect();
        scope.aliases.replace(aliases);
        scope.clause.set(Clause::Having);
        let having = ast.having.as_ref().map(|having| self.bool(having, &scope, "HAVING clause")).transpose()?;
        scope.clause.set(Clause::Qualify);
        let qualify = ast.qualify.as_ref().map(|qualify| self.bool(qualify, &scope, "QUALIFY clause")).transpose()?;
        if ast.qualify.is_some() && scope.calls.borrow().windows.is_empty() {
            return Err(SqlError::query(
                "The QUALIFY clause requires analytic function to be present in the QUALIFY clause or the SELECT list",
            ));
        }
        if let Some(ValueTableMode::AsStruct | ValueTableMode::DistinctAsStruct) = ast.value_table_mode {
            let fields = outputs.iter().map(|output| Field::new(&output.name, output.kind.clone()));
            outputs = vec![Output { name: "".into(), kind: Type::record(fields) }];
            exprs = vec![Expr::Struct(exprs)];
        }
        let distinct = match (&ast.distinct, &ast.value_table_mode) {
            (None | Some(Distinct::All), Some(ValueTableMode::DistinctAsStruct | ValueTableMode::DistinctAsValue))
            | (Some(Distinct::Distinct), _) => true,
            (None | Some(Distinct::All), _) => false,
            (Some(Distinct::On(_)), _) => return Err(SqlError::query("Syntax error: Unexpected keyword ON")),
        };
        if distinct
            && let Some(output) =
                outputs.iter().find(|output| matches!(output.kind, Type::Json | Type::Geography | Type::Array(_)))
        {
            let message =
                format!("Column {} of type {} cannot be used in SELECT DISTINCT", output.name, output.kind.base_name());
            return Err(SqlError::query(message));
        }
        scope.clause.set(Clause::OrderBy);
        let mut keys = Vec::new();
        for key in order {
            let index = match ordinal(&key.expr, outputs.len(), "ORDER BY")? {
                Some(index) => index,
                None => {
                    let [bound] = self
                        .order(std::slice::from_ref(key), &scope)?
                        .try_into()
                        .map_err(|_| SqlError::unsupported("this order"))?;
                    let known = exprs.iter().position(|expr| *expr == bound.by);
                    if known.is_none() && distinct {
                        let message = format!(
                            "ORDER BY clause expression references {} which is not visible after SELECT DISTINCT",
                            key.expr
                        );
                        return Err(SqlError::query(message).at(position(key.expr.span())));
                    }
                    known.unwrap_or_else(|| {
                        exprs.push(bound.by);
                        exprs.len() - 1
                    })
                }
            };
            keys.push(call::directed(index, key));
        }
        let calls = scope.calls.into_inner();
        let group = scope.grouping.map(|keys| Group {
            keys: keys.into_iter().map(|(key, _)| key).collect(),
            sets,
            aggregates: calls.aggregates,
            slots: calls.next,
        });
        let slots = if group.is_some() { slots } else { calls.next };
        let select =
            Select { slots, from, filter, group, having, windows: calls.windows, qualify, outputs: exprs, distinct };
        Ok((select, outputs, keys))
    }

    /// Whether rows become groups: by a clause, or by an aggregate somewhere.
    fn is_grouped(&self, ast: &ast::Select, items: &[Item<'_>], order: &[OrderByExpr], scope: &Scope<'_>) -> bool {
        let clause = match &ast.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        };
        if clause || ast.having.is_some() {
            return true;
        }
        let asts = items.iter().filter_map(|item| if let Item::Ast(ast, _) = item { Some(*ast) } else { None });
        let asts = asts.chain(order.iter().map(|key| &key.expr)).chain(&ast.qualify);
        asts.into_iter().any(|ast| self.has_aggregate(ast, scope))
    }

    /// Whether an expression has an aggregate of this block: it is bound once to see.
    fn has_aggregate(&self, ast: &Ast, scope: &Scope<'_>) -> bool {
        let text = ast.to_string();
        let mut words =
            text.split('(').map(|part| part.rsplit(|next: char| !next.is_alphanumeric() && next != '_').next());
        if !words.any(|word| word.is_some_and(|word| aggregate::named(&word.to_ascii_uppercase()).is_some())) {
            return false;
        }
        let mark = self.mark();
        let clause = scope.clause.replace(Clause::Select);
        let calls = std::mem::take(&mut *scope.calls.borrow_mut());
        // Whatever is wrong is found again when it counts.
        let _ = self.expr(ast, scope);
        let found = !scope.calls.borrow().aggregates.is_empty();
        scope.calls.replace(calls);
        scope.clause.set(clause);
        self.reset(mark);
        found
    }

    fn group_keys(
        &self,
        ast: &GroupByExpr,
        items: &[Item<'_>],
        scope: &Scope<'_>,
        slots: usize,
    ) -> Result<Keys, SqlError> {
        let mut keys = Keys { keys: Vec::new(), items: vec![None; items.len()], sets: Vec::new() };
        let (asts, modifiers) = match ast {
            GroupByExpr::All(modifiers) => (&[][..], modifiers),
            GroupByExpr::Expressions(asts, modifiers) => (asts.as_slice(), modifiers),
        };
        if !modifiers.is_empty() {
            return Err(SqlError::query("Syntax error: Unexpected keyword WITH"));
        }
        if let GroupByExpr::All(_) = ast {
            for (index, item) in items.iter().enumerate() {
                if let Item::Ast(ast, _) = item
                    && self.has_aggregate(ast, scope)
                {
                    continue;
                }
                let (bound, _) = self.item(item, scope)?;
                if !matches!(bound.expr, Expr::Constant(_)) {
                    keys.add(bound, Some(index), None)?;
                }
            }
            scope.calls.borrow_mut().next = slots;
            keys.sets = vec![vec![true; keys.keys.len()]];
            return Ok(keys);
        }
        // Each set has the keys of the expressions outside, and those of one line of a ROLLUP.
        let mut plain = Vec::new();
        let mut lines: Option<Vec<Vec<usize>>> = None;
        for ast in asts {
            let several: Vec<Vec<Ast>> = match ast {
                Ast::Rollup(groups) => (0..=groups.len()).rev().map(|count| groups[..count].concat()).collect(),
                Ast::GroupingSets(groups) => groups.clone(),
                Ast::Cube(_) => return Err(SqlError::unsupported("CUBE")),
                ast => {
                    plain.push(self.group_key_of(ast, items, scope, &mut keys)?);
                    continue;
                }
            };
            if lines.is_some() {
                return Err(SqlError::unsupported("several grouping sets side by side"));
            }
            let bound = several
                .iter()
                .map(|line| line.iter().map(|ast| self.group_key_of(ast, items, scope, &mut keys)).collect());
            lines = Some(bound.collect::<Result<_, _>>()?);
        }
        let has =
            |line: &[usize]| (0..keys.keys.len()).map(|key| plain.contains(&key) || line.contains(&key)).collect();
        keys.sets = lines.map_or_else(|| vec![has(&[])], |lines| lines.iter().map(|line| has(line)).collect());
        Ok(keys)
    }

    /// Adds what one expression of `GROUP BY` stands for: a position, the name of an item, or itself.
    fn group_key_of(
        &self,
        ast: &Ast,
        items: &[Item<'_>],
        scope: &Scope<'_>,
        keys: &mut Keys,
    ) -> Result<usize, SqlError> {
        let place = position(ast.span());
        let named = match ast {
            Ast::Identifier(name) => items.iter().position(|item| match item {
                Item::Ast(_, item) => item.eq_ignore_ascii_case(&name.value),
                Item::Column(..) => false,
            }),
            ast => ordinal(ast, items.len(), "GROUP BY")?,
        };
        if let Some(index) = named {
            return keys.add(self.item(&items[index], scope)?.0, Some(index), place);
        }
        let bound = self.expr(ast, scope)?;
        if let Expr::Constant(_) = bound.expr {
            return Err(SqlError::query("Cannot GROUP BY literal values").at(place));
        }
        keys.add(bound, None, place)
    }

    fn item(&self, item: &Item<'_>, scope: &Scope<'_>) -> Result<(Bound, Arc<str>), SqlError> {
        match item {
            Item::Ast(ast, _) => Ok((self.expr(ast, scope)?, item.name())),
            Item::Column(column, place) => {
                let expr = match &scope.grouping {
                    None => column.expr.clone(),
                    Some(_) => scope
                        .grouped(&column.expr)
                        .ok_or_else(|| ungrouped("Star expansion", &format!("column {}", column.name), *place))?,
                };
                Ok((Bound::new(expr, column.kind.clone()), item.name()))
            }
        }
    }

    /// The items of the list, with `*` replaced by columns.
    fn items<'q>(&self, ast: &'q ast::Select, scope: &Scope<'_>) -> Result<Vec<Item<'q>>, SqlError> {
        let mut items = Vec::new();
        for item in &ast.projection {
            match item {
                SelectItem::UnnamedExpr(ast) => items.push(Item::Ast(ast, implied_name(ast))),
                SelectItem::ExprWithAlias { expr, alias } => {
                    parse::check_name(alias)?;
                    items.push(Item::Ast(expr, alias.value.as_str().into()));
                }
                SelectItem::Wildcard(options) => {
                    let place = position(options.wildcard_token.0.span);
                    if scope.columns.is_empty() {
                        return Err(SqlError::query("SELECT * must have a FROM clause").at(place));
                    }
                    let columns = scope.columns.iter().filter(|column| !column.hidden).cloned();
                    expand(columns.collect(), options, place, &mut items)?;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let path = idents(name);
                    let place = position(name.span());
                    let range = (path.len() == 1)
                        .then(|| scope.ranges.iter().find(|range| range.name.eq_ignore_ascii_case(&path[0].value)));
                    let columns = match range.flatten() {
                        Some(range) => {
                            let own = scope.columns.iter().filter(|column| column.of == range.name);
                            own.filter(|column| !column.hidden || column.qualified).cloned().collect()
                        }
                        None => {
                            let (expr, kind) = scope.resolve(&path)?;
                            fields_of(&expr, &kind, place)?
                        }
                    };
                    expand(columns, options, place, &mut items)?;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(ast), options) => {
                    let place = position(ast.span());
                    let bound = self.expr(ast, scope)?;
                    expand(fields_of(&bound.expr, &bound.kind, place)?, options, place, &mut items)?;
                }
                other @ SelectItem::ExprWithAliases { .. } => {
                    return Err(SqlError::query(format!("Syntax error: Unexpected {other}")));
                }
            }
        }
        Ok(items)
    }

    fn from(&self, tables: &[TableWithJoins], scope: &mut Scope<'_>) -> Result<Option<From>, SqlError> {
        let mut all: Option<From> = None;
        for table in tables {
            let start = scope.calls.borrow().next;
            let (right, lateral) = self.joined(table, scope)?;
            all = Some(match all {
                None => right,
                Some(left) => cross(left, right, start, scope.calls.borrow().next, lateral),
            });
        }
        Ok(all)
    }

    /// A table with its joins, and whether it depends on what is left of it.
    fn joined(&self, ast: &TableWithJoins, scope: &mut Scope<'_>) -> Result<(From, bool), SqlError> {
        let (start, first_column) = (scope.calls.borrow().next, scope.columns.len());
        let (mut left, lateral) = self.factor(&ast.relation, scope)?;
        for join in &ast.joins {
            let (kind, constraint) = match &join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinKind::Inner, Some(constraint)),
                JoinOperator::CrossJoin(JoinConstraint::None) => (JoinKind::Inner, None),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                    (JoinKind::Left, Some(constraint))
                }
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                    (JoinKind::Right, Some(constraint))
                }
                JoinOperator::FullOuter(constraint) => (JoinKind::Full, Some(constraint)),
                other => return Err(SqlError::unsupported(format_args!("the join {other:?}"))),
            };
            let (middle, middle_column) = (scope.calls.borrow().next, scope.columns.len());
            let (right, depends) = self.factor(&join.relation, scope)?;
            if depends && matches!(kind, JoinKind::Right | JoinKind::Full) {
                return Err(SqlError::query(
                    "Array scan is not allowed on the right side of a RIGHT or FULL join when it depends on the left",
                ));
            }
            let end = scope.calls.borrow().next;
            let mut joined = Join {
                kind,
                left,
                right,
                lateral: depends,
                keys: Vec::new(),
                on: None,
                left_slots: start..middle,
                right_slots: middle..end,
                merged: Vec::new(),
            };
            match constraint {
                None | Some(JoinConstraint::None) => {}
                Some(JoinConstraint::On(on)) => {
                    let on = self.bool(on, scope, "JOIN ON clause")?;
                    self.join_on(&mut joined, on);
                }
                Some(JoinConstraint::Using(names)) => {
                    for name in names {
                        self.join_using(&mut joined, name, scope, first_column, middle_column)?;
                    }
                }
                Some(other) => return Err(SqlError::unsupported(format_args!("the join condition {other:?}"))),
            }
            left = From::Join(Box::new(joined));
        }
        Ok((left, lateral))
    }

    /// Splits a condition into what must be equal on both sides and the rest.
    fn join_on(&self, join: &mut Join, on: Expr) {
        let mut parts = Vec::new();
        on.conjuncts(&mut parts);
        let mut rest = Vec::new();
        for part in parts {
            if let (Expr::Compare { operator: super::plan::Comparison::Equal, left, right }, false) =
                (&part, join.lateral)
            {
                if only_in(left, &join.left_slots) && only_in(right, &join.right_slots) {
                    join.keys.push(((**left).clone(), (**right).clone()));
                    continue;
                }
                if only_in(right, &join.left_slots) && only_in(left, &join.right_slots) {
                    join.keys.push(((**right).clone(), (**left).clone()));
                    continue;
                }
            }
            rest.push(part);
        }
        join.on = Expr::all(rest);
    }

    fn join_using(
        &self,
        join: &mut Join,
        name: &ObjectName,
        scope: &mut Scope<'_>,
        first: usize,
        middle: usize,
    ) -> Result<(), SqlError> {
        let place = position(name.span());
        let wanted = idents(name).pop().map(|name| name.value).unwrap_or_default();
        let side = |range: Slots<usize>, which: &str| {
            let mut found = range
                .filter(|at| !scope.columns[*at].qualified && scope.columns[*at].name.eq_ignore_ascii_case(&wanted));
            match (found.next(), found.next()) {
                (Some(at), None) => Ok(at),
                (Some(_), Some(_)) => Err(SqlError::query(format!("Column name {wanted} is ambiguous")).at(place)),
                (None, _) => {
                    Err(SqlError::query(format!("Column {wanted} in USING clause not found on {which} side of join"))
                        .at(place))
                }
            }
        };
        let left = side(first..middle, "left")?;
        let right = side(middle..scope.columns.len(), "right")?;
        let bounds = [left, right].map(|at| Bound::new(scope.columns[at].expr.clone(), scope.columns[at].kind.clone()));
        let (exprs, kind) = self.common(bounds.to_vec(), "operator =").map_err(|error| error.at(place))?;
        let [left_expr, right_expr] = exprs.try_into().map_err(|_| SqlError::unsupported("this USING"))?;
        join.keys.push((left_expr.clone(), right_expr.clone()));
        if join.lateral {
            return Err(SqlError::unsupported("USING with an array of the left side"));
        }
        let expr = match join.kind {
            JoinKind::Inner | JoinKind::Left => left_expr,
            JoinKind::Right => right_expr,
            JoinKind::Full => {
                let slot = scope.new_slot();
                join.merged.push((slot, Expr::Coalesce(vec![left_expr, right_expr])));
                Expr::Column { depth: 0, slot }
            }
        };
        for at in [left, right] {
            (scope.columns[at].hidden, scope.columns[at].qualified) = (true, true);
        }
        let name = Arc::clone(&scope.columns[left].name);
        // Columns of USING come before the others, in their order.
        let before = scope.columns[first..].iter().take_while(|column| column.of.is_empty() && !column.hidden).count();
        scope
            .columns
            .insert(first + before, Column { name, of: "".into(), expr, kind, hidden: false, qualified: false });
        Ok(())
    }

    /// One input, and whether it depends on what is left of it.
    fn factor(&self, ast: &TableFactor, scope: &mut Scope<'_>) -> Result<(From, bool), SqlError> {
        match ast {
            TableFactor::Table {
                name, alias, args: None, version: None, sample: None, with_ordinality: false, ..
            } => {
                let path = idents(name);
                if path.len() > 1 && scope.knows(&path[0].value) {
                    let (expr, kind) = scope.resolve(&path)?;
                    let implied: Arc<str> = path.last().map_or("", |name| &name.value).into();
                    return self.unnest(
                        Bound::new(expr, kind),
                        alias.as_ref(),
                        Some(implied),
                        None,
                        scope,
                        position(name.span()),
                    );
                }
                Ok((self.table(&path, alias.as_ref(), scope, position(name.span()))?, false))
            }
            TableFactor::Derived { subquery, alias, lateral: false, sample: None } => {
                let (query, outputs) = self.query(subquery, scope.outer)?;
                let first = self.add_columns(alias.as_ref(), None, &outputs, scope)?;
                Ok((From::Query { query: Box::new(query), first }, false))
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality: false } => {
                let [array] = array_exprs.as_slice() else {
                    return Err(SqlError::unsupported("UNNEST of several arrays"));
                };
                let bound = self.expr(array, scope)?;
                let offset = with_offset.then(|| {
                    with_offset_alias.as_ref().map_or_else(|| "offset".into(), |name| name.value.as_str().into())
                });
                self.unnest(bound, alias.as_ref(), None, offset, scope, position(array.span()))
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.joined(table_with_joins, scope),
            TableFactor::Table { sample: Some(_), .. } => Err(SqlError::unsupported("TABLESAMPLE")),
            TableFactor::Table { version: Some(_), .. } => Err(SqlError::unsupported("FOR SYSTEM_TIME AS OF")),
            TableFactor::Pivot { .. } => Err(SqlError::unsupported("PIVOT")),
            TableFactor::Unpivot { .. } => Err(SqlError::unsupported("UNPIVOT")),
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                Err(SqlError::unsupported(format_args!("the table function {name}")).at(position(name.span())))
            }
            other => Err(SqlError::unsupported(format_args!("{other} in FROM"))),
        }
    }

    fn unnest(
        &self,
        array: Bound,
        alias: Option<&TableAlias>,
        implied: Option<Arc<str>>,
        offset: Option<Arc<str>>,
        scope: &mut Scope<'_>,
        place: Option<Position>,
    ) -> Result<(From, bool), SqlError> {
        let Some(element) = array.kind.element().cloned() else {
            let message = format!(
                "Values referenced in UNNEST must be arrays. UNNEST contains expression of type {}",
                array.kind
            );
            return Err(SqlError::query(message).at(place));
        };
        let mut depends = false;
        usage::columns(&array.expr, &mut |depth, _| depends |= depth == 0);
        let first = scope.new_slot();
        let value = Expr::Column { depth: 0, slot: first };
        let name: Arc<str> =
            alias.map(|alias| alias.name.value.as_str().into()).or(implied).unwrap_or_else(|| "".into());
        if !name.is_empty() {
            self.add_range(
                Range { name: Arc::clone(&name), value: Some((value.clone(), element.clone())) },
                scope,
                place,
            )?;
        }
        match &element {
            Type::Struct(fields) => {
                for (index, field) in fields.iter().enumerate() {
                    let expr = Expr::Field(Box::new(value.clone()), index);
                    scope.columns.push(Column {
                        name: Arc::clone(&field.name),
                        of: Arc::clone(&name),
                        expr,
                        kind: field.kind.clone(),
                        hidden: false,
                        qualified: false,
                    });
                }
            }
            _ => scope.columns.push(Column {
                name: Arc::clone(&name),
                of: Arc::clone(&name),
                expr: value,
                kind: element,
                hidden: false,
                qualified: false,
            }),
        }
        let with_offset = offset.is_some();
        if let Some(name) = offset {
            let slot = scope.new_slot();
            let expr = Expr::Column { depth: 0, slot };
            scope.columns.push(Column {
                name,
                of: "".into(),
                expr,
                kind: Type::Int64,
                hidden: false,
                qualified: false,
            });
        }
        Ok((From::Unnest { array: array.expr, first, offset: with_offset }, depends))
    }

    fn add_range(&self, range: Range, scope: &mut Scope<'_>, place: Option<Position>) -> Result<(), SqlError> {
        if scope.ranges.iter().any(|known| known.name.eq_ignore_ascii_case(&range.name)) {
            return Err(
                SqlError::query(format!("Duplicate table alias {} in the same FROM clause", range.name)).at(place)
            );
        }
        scope.ranges.push(range);
        Ok(())
    }

    /// Columns of an input under its alias; returns the first slot.
    fn add_columns(
        &self,
        alias: Option<&TableAlias>,
        implied: Option<&str>,
        outputs: &[Output],
        scope: &mut Scope<'_>,
    ) -> Result<usize, SqlError> {
        if let Some(alias) = alias {
            parse::check_name(&alias.name)?;
        }
        if alias.is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(SqlError::query("Syntax error: a table alias has no columns"));
        }
        let name: Arc<str> = alias.map(|alias| alias.name.value.as_str()).or(implied).unwrap_or_default().into();
        if !name.is_empty() {
            let place = alias.and_then(|alias| position(alias.name.span));
            self.add_range(Range { name: Arc::clone(&name), value: None }, scope, place)?;
        }
        let first = scope.calls.borrow().next;
        for output in outputs {
            let slot = scope.new_slot();
            scope.columns.push(Column {
                name: Arc::clone(&output.name),
                of: Arc::clone(&name),
                expr: Expr::Column { depth: 0, slot },
                kind: output.kind.clone(),
                hidden: false,
                qualified: false,
            });
        }
        Ok(first)
    }

    /// A common table, a table, the tables of a wildcard, or a view.
    fn table(
        &self,
        path: &[Ident],
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
        place: Option<Position>,
    ) -> Result<From, SqlError> {
        let whole = path.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
        if let [name] = path {
            let state = self.state.borrow();
            let found =
                state.ctes.iter().rev().flatten().find(|cte| cte.name.eq_ignore_ascii_case(&name.value)).cloned();
            drop(state);
            if let Some(cte) = found {
                let first = self.add_columns(alias, Some(&cte.name), &cte.outputs, scope)?;
                return Ok(From::Common { index: cte.index, first });
            }
        }
        let id = self.table_id(&whole).map_err(|error| error.at(place))?;
        if id.to_string().to_ascii_uppercase().contains("INFORMATION_SCHEMA") || id.table.starts_with("__TABLES") {
            return Err(
                SqlError::unsupported(format_args!("{whole}: list tables and columns by the REST API")).at(place)
            );
        }
        if let Some(prefix) = id.table.strip_suffix('*') {
            let mut tables = self.session.catalog.find_all(&id.project, &id.dataset, prefix)?;
            tables.sort_by(|left, right| left.0.cmp(&right.0));
            if tables.is_empty() {
                let message = format!("{}:{}.{} does not match any table.", id.project, id.dataset, id.table);
                return Err(SqlError::new(super::Reason::NotFound, message));
            }
            return self.scan(id, tables, true, alias, scope);
        }
        match self.session.catalog.find(&id)? {
            Source::Table(table) => self.scan(id, vec![(String::new(), table)], false, alias, scope),
            Source::View { sql } => {
                let (query, outputs) = self.view(&id, &sql)?;
                let first = self.add_columns(alias, Some(&id.table), &outputs, scope)?;
                Ok(From::Query { query: Box::new(query), first })
            }
        }
    }

    /// The parts of a name, from the right: a project may have dots of its own.
    fn table_id(&self, name: &str) -> Result<TableId, SqlError> {
        let mut parts = name.rsplitn(3, '.');
        let table = parts.next().unwrap_or_default();
        let inside_view = self.state.borrow().view_depth > 0;
        let default = self.session.default_dataset.filter(|_| !inside_view);
        match (parts.next(), parts.next(), default) {
            (Some(dataset), Some(project), _) => Ok(TableId::new(project, dataset, table)),
            (Some(dataset), None, _) => match dataset.split_once(':') {
                Some((project, dataset)) => Ok(TableId::new(project, dataset, table)),
                None => Ok(TableId::new(self.session.project, dataset, table)),
            },
            (None, _, Some((project, dataset))) => Ok(TableId::new(project, dataset, table)),
            (None, _, None) => {
                Err(SqlError::query(format!("Table \"{name}\" must be qualified with a dataset (e.g. dataset.table).")))
            }
        }
    }

    fn view(&self, id: &TableId, sql: &str) -> Result<(Query, Vec<Output>), SqlError> {
        let outside = {
            let mut state = self.state.borrow_mut();
            if state.view_depth == VIEWS {
                return Err(SqlError::query(format!("Views are nested more than {VIEWS} deep: {id}")));
            }
            state.view_depth += 1;
            if !state.views.contains(id) {
                state.views.push(id.clone());
            }
            std::mem::take(&mut state.ctes)
        };
        let bound = parse_query(sql).and_then(|query| self.query(&query, None));
        let mut state = self.state.borrow_mut();
        state.view_depth -= 1;
        state.ctes = outside;
        bound
    }

    fn scan(
        &self,
        id: TableId,
        tables: Vec<(String, Arc<dyn Table>)>,
        wildcard: bool,
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> Result<From, SqlError> {
        // The newest table says what columns a wildcard has.
        let Some((_, newest)) = tables.last() else { return Err(SqlError::query("A wildcard needs a table")) };
        let schema = newest.schema().to_vec();
        let outputs: Vec<Output> =
            schema.iter().map(|field| Output { name: Arc::clone(&field.name), kind: field.kind.clone() }).collect();
        let first = self.add_columns(alias, Some(&id.table), &outputs, scope)?;
        if wildcard {
            let slot = scope.new_slot();
            let of = scope.columns.last().map_or_else(|| "".into(), |column| Arc::clone(&column.of));
            let expr = Expr::Column { depth: 0, slot };
            scope.columns.push(Column {
                name: "_TABLE_SUFFIX".into(),
                of,
                expr,
                kind: Type::String,
                hidden: true,
                qualified: false,
            });
        }
        let unfiltered = newest.partitioning().filter(|partitioning| partitioning.require_filter);
        let unfiltered = unfiltered.map(|partitioning| Arc::clone(&schema[partitioning.column].name));
        let mut parts = Vec::new();
        for (suffix, table) in &tables {
            parts.push(Part {
                table: Arc::clone(table),
                suffix: Value::from(suffix.as_str()),
                rows: std::iter::once(0..table.row_count()).collect(),
                map: if wildcard { Some(column_map(&schema, table.as_ref())?) } else { None },
            });
        }
        let mut state = self.state.borrow_mut();
        let through_view = state.view_depth > 0;
        state.scans.push(Scan { parts, columns: Vec::new(), width: schema.len(), suffix: wildcard });
        state.reads.push(Read { id, through_view, unfiltered });
        Ok(From::Scan { scan: state.scans.len() - 1, first })
    }

    /// Leaves out the tables of a wildcard and the partitions that a condition rules out. Returns what remains to be tested.
    fn filter_scans(&self, from: &mut From, filter: Option<Expr>) -> Option<Expr> {
        let mut parts = Vec::new();
        filter?.conjuncts(&mut parts);
        let mut scans = Vec::new();
        scans_of(from, true, &mut scans);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        parts.retain(|part| {
            for (scan, first, optional) in &scans {
                let (scan, read) = (&mut state.scans[*scan], &mut state.reads[*scan]);
                let suffix = scan.suffix.then_some(first + scan.width);
                if suffix.is_some() && depends_only_on(part, suffix) {
                    let verdicts: Option<Vec<bool>> =
                        scan.parts.iter().map(|table| test(part, suffix, &table.suffix)).collect();
                    let Some(verdicts) = verdicts else { continue };
                    // Rows that an outer join makes up are no reason to read.
                    if *optional && test(part, suffix, &Value::Null) != Some(false) {
                        continue;
                    }
                    let mut verdicts = verdicts.into_iter();
                    scan.parts.retain(|_| verdicts.next().unwrap_or(true));
                    return *optional;
                }
                for table in &mut scan.parts {
                    let Some(partitioning) = table.table.partitioning() else { continue };
                    let column = Some(first + partitioning.column);
                    if scan.suffix || !depends_only_on(part, column) {
                        continue;
                    }
                    let exact = !partitioning
                        .partitions
                        .iter()
                        .any(|(value, _)| matches!(value, Value::Timestamp(_) | Value::DateTime(_)));
                    let keeps = |value: &Value| !exact || test(part, column, value) != Some(false);
                    if test(part, column, &Value::Null).is_some() {
                        read.unfiltered = None;
                    }
                    if *optional && test(part, column, &Value::Null) != Some(false) {
                        continue;
                    }
                    let kept = partitioning.partitions.iter().filter(|(value, _)| keeps(value));
                    table.rows = intersect(&table.rows, &kept.map(|(_, rows)| rows.clone()).collect::<Vec<_>>());
                }
            }
            true
        });
        Expr::all(parts)
    }
}

/// Parses a query that is no script.
pub(super) fn parse_query(sql: &str) -> Result<ast::Query, SqlError> {
    let tokens = lexer::tokens(sql)?;
    parse::query(&tokens, parse::end_of(sql))
}

/// The parts of a name.
fn idents(name: &ObjectName) -> Vec<Ident> {
    name.0.iter().filter_map(|part| part.as_ident().cloned()).collect()
}

/// A column of an input of a set operation: literals become the other side's type.
fn column_of(query: &Query, outputs: &[Output], column: usize) -> Bound {
    let mut body = &query.body;
    while let Body::Query(inner) = body {
        body = &inner.body;
    }
    let kind = outputs[column].kind.clone();
    match body {
        Body::Select(select) => match select.outputs.get(column) {
            Some(Expr::Constant(Value::Null)) => Bound { kind, ..Bound::null() },
            Some(Expr::Constant(value)) => Bound::literal(value.clone(), kind),
            _ => Bound::new(Expr::Constant(Value::Null), kind),
        },
        _ => Bound::new(Expr::Constant(Value::Null), kind),
    }
}

/// The index that a position of `ORDER BY` or `GROUP BY` means.
fn ordinal(ast: &Ast, count: usize, clause: &str) -> Result<Option<usize>, SqlError> {
    let Ast::Value(literal) = ast else { return Ok(None) };
    let ast::Value::Number(text, _) = &literal.value else { return Ok(None) };
    let index = text.parse::<usize>().ok().filter(|number| (1..=count).contains(number));
    let out =
        || SqlError::query(format!("{clause} is out of SELECT column number range: {text}")).at(position(literal.span));
    index.map(|number| Some(number - 1)).ok_or_else(out)
}

/// The name that an item has without an alias.
fn implied_name(ast: &Ast) -> Arc<str> {
    match ast {
        Ast::Identifier(name) => name.value.as_str().into(),
        Ast::CompoundIdentifier(path) => path.last().map_or("", |name| &name.value).into(),
        Ast::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(ast::AccessExpr::Dot(Ast::Identifier(name))) => name.value.as_str().into(),
            _ => "".into(),
        },
        Ast::Nested(inner) => implied_name(inner),
        _ => "".into(),
    }
}

fn fields_of(expr: &Expr, kind: &Type, place: Option<Position>) -> Result<Vec<Column>, SqlError> {
    let Type::Struct(fields) = kind else {
        return Err(SqlError::query(format!("Dot-star is not supported for type {kind}")).at(place));
    };
    let columns = fields.iter().enumerate().map(|(index, field)| Column {
        name: Arc::clone(&field.name),
        of: "".into(),
        expr: Expr::Field(Box::new(expr.clone()), index),
        kind: field.kind.clone(),
        hidden: false,
        qualified: false,
    });
    Ok(columns.collect())
}

/// The columns of a star with its EXCEPT and REPLACE.
fn expand<'q>(
    columns: Vec<Column>,
    options: &'q WildcardAdditionalOptions,
    place: Option<Position>,
    items: &mut Vec<Item<'q>>,
) -> Result<(), SqlError> {
    if options.opt_ilike.is_some() || options.opt_exclude.is_some() || options.opt_rename.is_some() {
        return Err(SqlError::query("Syntax error: a star takes EXCEPT and REPLACE").at(place));
    }
    let except = options
        .opt_except
        .as_ref()
        .map(|except| std::iter::once(&except.first_element).chain(&except.additional_elements));
    let except: Vec<&Ident> = except.into_iter().flatten().collect();
    let replace = options.opt_replace.as_ref().map(|replace| &replace.items);
    let named = |column: &Column, name: &Ident| column.name.eq_ignore_ascii_case(&name.value);
    for name in &except {
        if !columns.iter().any(|column| named(column, name)) {
            return Err(SqlError::query(format!("Column {} in SELECT * EXCEPT list does not exist", name.value))
                .at(position(name.span)));
        }
    }
    for element in replace.into_iter().flatten() {
        if !columns.iter().any(|column| named(column, &element.column_name)) {
            let name = &element.column_name;
            return Err(SqlError::query(format!("Column {} in SELECT * REPLACE list does not exist", name.value))
                .at(position(name.span)));
        }
    }
    for column in columns {
        if except.iter().any(|name| named(&column, name)) {
            continue;
        }
        let replaced = replace.into_iter().flatten().find(|element| named(&column, &element.column_name));
        items.push(match replaced {
            Some(element) => Item::Ast(&element.expr, Arc::clone(&column.name)),
            None => Item::Column(column, place),
        });
    }
    Ok(())
}

fn cross(left: From, right: From, middle: usize, end: usize, lateral: bool) -> From {
    From::Join(Box::new(Join {
        kind: JoinKind::Inner,
        left,
        right,
        lateral,
        keys: Vec::new(),
        on: None,
        left_slots: 0..middle,
        right_slots: middle..end,
        merged: Vec::new(),
    }))
}

/// Whether an expression reads some of these slots and nothing else.
fn only_in(expr: &Expr, slots: &Slots<usize>) -> bool {
    let (mut reads, mut outside) = (false, false);
    usage::columns(expr, &mut |depth, slot| {
        reads |= depth == 0;
        outside |= depth > 0 || !slots.contains(&slot);
    });
    reads && !outside
}

/// Whether a condition can be decided by one slot: it reads that one, and has no subquery.
fn depends_only_on(expr: &Expr, slot: Option<usize>) -> bool {
    let Some(slot) = slot else { return false };
    only_in(expr, &(slot..slot + 1)) && !has_subquery(expr)
}

fn has_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_)) || expr.children().into_iter().any(has_subquery)
}

/// Whether a condition is true for a value of its one slot; none when it can't be told.
fn test(expr: &Expr, slot: Option<usize>, value: &Value) -> Option<bool> {
    let mut row = vec![Value::Null; slot.unwrap_or(0) + 1];
    *row.last_mut()? = value.clone();
    let nothing = Query {
        body: Body::Set { operation: SetOperation::Union, distinct: false, inputs: Vec::new() },
        order: Vec::new(),
        width: 0,
        limit: None,
        offset: 0,
    };
    let statement = Statement { query: nothing, scans: Vec::new(), commons: Vec::new(), constants: 0 };
    let outcome = Run::new(&statement).eval(expr, &Env { row: &row, outer: None });
    outcome.ok().map(|value| value == Value::Bool(true))
}

/// The scans of an input with their first slots, and whether an outer join may make up rows in their place.
fn scans_of(from: &From, plain: bool, scans: &mut Vec<(usize, usize, bool)>) {
    match from {
        From::Scan { scan, first } => scans.push((*scan, *first, !plain)),
        From::Join(join) => {
            scans_of(&join.left, plain && matches!(join.kind, JoinKind::Inner | JoinKind::Left), scans);
            scans_of(&join.right, plain && matches!(join.kind, JoinKind::Inner | JoinKind::Right), scans);
        }
        _ => {}
    }
}

fn intersect(left: &[Slots<u64>], right: &[Slots<u64>]) -> Vec<Slots<u64>> {
    let pairs = left
        .iter()
        .flat_map(|left| right.iter().map(move |right| left.start.max(right.start)..left.end.min(right.end)));
    pairs.filter(|rows| !rows.is_empty()).collect()
}

/// Where the columns of a wildcard are in one of its tables.
fn column_map(schema: &[Field], table: &dyn Table) -> Result<Vec<Option<usize>>, SqlError> {
    let own = table.schema();
    let map = schema.iter().map(|field| {
        let at = own.iter().position(|own| own.name.eq_ignore_ascii_case(&field.name));
        match at.map(|at| &own[at]) {
            Some(found) if found.kind != field.kind => Err(SqlError::query(format!(
                "Cannot read field '{}' of type {} as {}",
                field.name, found.kind, field.kind
            ))),
            _ => Ok(at),
        }
    });
    map.collect()
}
