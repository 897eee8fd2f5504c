//! Runs a plan: rows are pushed through a block, one row of slots for each block, without copies in between.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::aggregate::{State, by_keys};
use super::catalog::Row;
use super::compare::{self, Key};
use super::error::SqlError;
use super::plan::{
    Body, Expr, From, Group, Input, Join, JoinKind, Query, Select, SetOperation, Statement, Subquery, SubqueryKind,
};
use super::{cast, window};
use crate::bigquery::value::Value;

/// Takes a row; false when no more are wanted.
type Sink<'s> = &'s mut dyn FnMut(&mut Row) -> Result<bool, SqlError>;

/// Rounds of a recursive table.
const ROUNDS: usize = 500;

/// The rows of the blocks that an expression sees.
#[derive(Clone, Copy)]
pub(super) struct Env<'e> {
    pub(super) row: &'e [Value],
    pub(super) outer: Option<&'e Env<'e>>,
}

/// A statement that runs, with what it need not compute again.
pub(super) struct Run<'a> {
    statement: &'a Statement,
    commons: Vec<OnceCell<Arc<[Row]>>>,
    /// Rows of recursive tables while they grow.
    working: RefCell<Vec<Option<Arc<[Row]>>>>,
    constants: Vec<OnceCell<Constant>>,
}

/// The result of a subquery that depends on no row.
enum Constant {
    Value(Value),
    /// For `IN`: the values, and whether a null is among them.
    Set(HashSet<Key>, bool),
}

impl<'a> Run<'a> {
    pub(super) fn new(statement: &'a Statement) -> Self {
        Self {
            statement,
            commons: statement.commons.iter().map(|_| OnceCell::new()).collect(),
            working: RefCell::new(vec![None; statement.commons.len()]),
            constants: (0..statement.constants).map(|_| OnceCell::new()).collect(),
        }
    }

    /// All rows of the statement.
    pub(super) fn rows(&self) -> Result<Vec<Row>, SqlError> {
        self.collect(&self.statement.query, None)
    }

    fn collect(&self, query: &Query, outer: Option<&Env<'_>>) -> Result<Vec<Row>, SqlError> {
        let mut rows = Vec::new();
        self.query(query, outer, &mut |row| {
            rows.push(std::mem::take(row));
            Ok(true)
        })?;
        Ok(rows)
    }

    fn query(&self, query: &Query, outer: Option<&Env<'_>>, sink: Sink<'_>) -> Result<bool, SqlError> {
        let mut skip = query.offset;
        let mut left = query.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(true);
        }
        let mut wanted = true;
        let mut pass = |row: &mut Row| {
            if skip > 0 {
                skip -= 1;
                return Ok(true);
            }
            row.truncate(query.width);
            wanted = sink(row)?;
            left -= 1;
            Ok(wanted && left > 0)
        };
        if query.order.is_empty() {
            self.body(&query.body, outer, &mut pass)?;
            return Ok(wanted);
        }
        let mut rows: Vec<(Vec<Value>, Row)> = Vec::new();
        self.body(&query.body, outer, &mut |row| {
            rows.push((query.order.iter().map(|order| row[order.by].clone()).collect(), std::mem::take(row)));
            Ok(true)
        })?;
        rows.sort_by(|left, right| by_keys(&query.order, &left.0, &right.0));
        for (_, mut row) in rows {
            if !pass(&mut row)? {
                break;
            }
        }
        Ok(wanted)
    }

    fn body(&self, body: &Body, outer: Option<&Env<'_>>, sink: Sink<'_>) -> Result<bool, SqlError> {
        match body {
            Body::Select(select) => self.select(select, outer, sink),
            Body::Query(query) => self.query(query, outer, sink),
            Body::Set { operation, distinct, inputs } => self.set(*operation, *distinct, inputs, outer, sink),
        }
    }

    fn set(
        &self,
        operation: SetOperation,
        distinct: bool,
        inputs: &[Input],
        outer: Option<&Env<'_>>,
        sink: Sink<'_>,
    ) -> Result<bool, SqlError> {
        let each = |input: &Input, take: &mut dyn FnMut(&mut Row) -> Result<bool, SqlError>| {
            self.query(&input.query, outer, &mut |row| {
                for (value, kinds) in row.iter_mut().zip(&input.casts) {
                    if let Some((from, to)) = kinds {
                        *value = cast::cast(std::mem::replace(value, Value::Null), from, to)?;
                    }
                }
                take(row)
            })
        };
        let mut seen: HashSet<Key> = HashSet::new();
        if operation == SetOperation::Union {
            for input in inputs {
                let go_on = each(input, &mut |row| match distinct && !seen.insert(Key(row.clone())) {
                    true => Ok(true),
                    false => sink(row),
                })?;
                if !go_on {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        // How often each row is on the right.
        let mut right: HashMap<Key, usize> = HashMap::new();
        let [first, second] = inputs else { return Err(SqlError::unsupported("this chain of set operations")) };
        each(second, &mut |row| {
            *right.entry(Key(std::mem::take(row))).or_default() += 1;
            Ok(true)
        })?;
        each(first, &mut |row| {
            let key = Key(row.clone());
            let there = right.get_mut(&key).filter(|count| **count > 0);
            let found = there.is_some();
            if let (false, Some(count)) = (distinct, there) {
                *count -= 1;
            }
            let keeps = found == (operation == SetOperation::Intersect) && (!distinct || seen.insert(key));
            if keeps { sink(row) } else { Ok(true) }
        })
    }

    fn select(&self, select: &Select, outer: Option<&Env<'_>>, sink: Sink<'_>) -> Result<bool, SqlError> {
        let mut frame = vec![Value::Null; select.slots];
        let mut seen: Option<HashSet<Key>> = select.distinct.then(HashSet::new);
        let mut output = |row: &[Value]| {
            let env = Env { row, outer };
            let mut out = Row::with_capacity(select.outputs.len());
            for expr in &select.outputs {
                out.push(self.eval(expr, &env)?);
            }
            if seen.as_mut().is_some_and(|seen| !seen.insert(Key(out.clone()))) {
                return Ok(true);
            }
            sink(&mut out)
        };
        let filtered = |frame: &mut Row, next: Sink<'_>| {
            self.from(select.from.as_ref(), frame, outer, &mut |frame| match &select.filter {
                Some(filter) if !self.is_true(filter, &Env { row: frame, outer })? => Ok(true),
                _ => next(frame),
            })
        };
        let Some(group) = &select.group else {
            if select.windows.is_empty() {
                return filtered(&mut frame, &mut |frame| output(frame));
            }
            let mut rows = Vec::new();
            filtered(&mut frame, &mut |frame| {
                rows.push(frame.clone());
                Ok(true)
            })?;
            return self.windows(select, rows, outer, &mut output);
        };
        let mut groups = Groups::new(group);
        filtered(&mut frame, &mut |frame| groups.add(self, &Env { row: frame, outer }).map(|()| true))?;
        let mut rows = Vec::new();
        for row in groups.rows()? {
            match &select.having {
                Some(having) if !self.is_true(having, &Env { row: &row, outer })? => {}
                _ if !select.windows.is_empty() => rows.push(row),
                _ if !output(&row)? => return Ok(false),
                _ => {}
            }
        }
        self.windows(select, rows, outer, &mut output)
    }

    /// Values of windows come into the last slots of all rows.
    fn windows(
        &self,
        select: &Select,
        mut rows: Vec<Row>,
        outer: Option<&Env<'_>>,
        output: &mut dyn FnMut(&[Value]) -> Result<bool, SqlError>,
    ) -> Result<bool, SqlError> {
        for window in &select.windows {
            let values = window::values(self, window, &rows, outer)?;
            for (row, value) in rows.iter_mut().zip(values) {
                row[window.slot] = value;
            }
        }
        for row in &rows {
            let passes = match &select.qualify {
                Some(qualify) => self.is_true(qualify, &Env { row, outer })?,
                None => true,
            };
            if passes && !output(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn from(
        &self,
        from: Option<&From>,
        frame: &mut Row,
        outer: Option<&Env<'_>>,
        sink: Sink<'_>,
    ) -> Result<bool, SqlError> {
        match from {
            None => sink(frame),
            Some(from) => self.read(from, frame, outer, sink),
        }
    }

    /// Puts each row of an input into its slots.
    fn read(&self, from: &From, frame: &mut Row, outer: Option<&Env<'_>>, sink: Sink<'_>) -> Result<bool, SqlError> {
        match from {
            From::Scan { scan, first } => {
                let scan = &self.statement.scans[*scan];
                for part in &scan.parts {
                    // A shard that lacks a column must not show the one before it.
                    frame[*first..first + scan.width].fill(Value::Null);
                    for rows in &part.rows {
                        for row in part.rows(scan, rows.clone()) {
                            part.place(scan, row, &mut frame[*first..]);
                            if !sink(frame)? {
                                return Ok(false);
                            }
                        }
                    }
                }
                Ok(true)
            }
            From::Query { query, first } => self.query(query, outer, &mut |row| {
                place(frame, *first, row.drain(..));
                sink(frame)
            }),
            From::Common { index, first } if self.statement.commons[*index].once => {
                self.query(&self.statement.commons[*index].query, None, &mut |row| {
                    place(frame, *first, row.drain(..));
                    sink(frame)
                })
            }
            From::Common { index, first } => {
                for row in self.common(*index)?.iter() {
                    place(frame, *first, row.iter().cloned());
                    if !sink(frame)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            From::Unnest { array, first, offset } => {
                let Value::Array(elements) = self.eval(array, &Env { row: frame, outer })? else { return Ok(true) };
                for (index, element) in elements.iter().enumerate() {
                    frame[*first] = element.clone();
                    if *offset {
                        frame[first + 1] = Value::Int64(index as i64);
                    }
                    if !sink(frame)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            From::Join(join) => self.join(join, frame, outer, sink),
        }
    }

    fn common(&self, index: usize) -> Result<Arc<[Row]>, SqlError> {
        if let Some(rows) = &self.working.borrow()[index] {
            return Ok(Arc::clone(rows));
        }
        if let Some(rows) = self.commons[index].get() {
            return Ok(Arc::clone(rows));
        }
        let common = &self.statement.commons[index];
        let mut all = self.collect(&common.query, None)?;
        if let Some((step, distinct)) = &common.recursion {
            let mut seen: HashSet<Key> = HashSet::new();
            if *distinct {
                all.retain(|row| seen.insert(Key(row.clone())));
            }
            let mut last: Arc<[Row]> = all.clone().into();
            for round in 0.. {
                if round == ROUNDS {
                    return Err(SqlError::query(format!(
                        "A recursive CTE has reached the maximum number of iterations: {ROUNDS}."
                    )));
                }
                self.working.borrow_mut()[index] = Some(last);
                let next = self.collect(step, None);
                self.working.borrow_mut()[index] = None;
                let mut next = next?;
                if *distinct {
                    next.retain(|row| seen.insert(Key(row.clone())));
                }
                if next.is_empty() {
                    break;
                }
                all.extend(next.iter().cloned());
                last = next.into();
            }
        }
        let rows: Arc<[Row]> = all.into();
        Ok(Arc::clone(self.commons[index].get_or_init(|| rows)))
    }

    fn join(&self, join: &Join, frame: &mut Row, outer: Option<&Env<'_>>, sink: Sink<'_>) -> Result<bool, SqlError> {
        let joined = |frame: &mut Row| -> Result<bool, SqlError> {
            match &join.on {
                Some(on) => self.is_true(on, &Env { row: frame, outer }),
                None => Ok(true),
            }
        };
        let mut emit = |frame: &mut Row| {
            for (slot, expr) in &join.merged {
                frame[*slot] = self.eval(expr, &Env { row: frame, outer })?;
            }
            sink(frame)
        };
        let keeps_left = matches!(join.kind, JoinKind::Left | JoinKind::Full);
        let keeps_right = matches!(join.kind, JoinKind::Right | JoinKind::Full);
        if join.lateral {
            return self.read(&join.left, frame, outer, &mut |frame| {
                let mut found = false;
                let go_on = self.read(&join.right, frame, outer, &mut |frame| {
                    let matches = joined(frame)?;
                    found |= matches;
                    if matches { emit(frame) } else { Ok(true) }
                })?;
                if go_on && keeps_left && !found {
                    frame[join.right_slots.clone()].fill(Value::Null);
                    return emit(frame);
                }
                Ok(go_on)
            });
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut index: HashMap<Key, Vec<usize>> = HashMap::new();
        self.read(&join.right, frame, outer, &mut |frame| {
            let key = self.key(join.keys.iter().map(|(_, right)| right), &Env { row: frame, outer })?;
            if let Some(key) = key {
                index.entry(key).or_default().push(rows.len());
            }
            rows.push(frame[join.right_slots.clone()].to_vec());
            Ok(true)
        })?;
        let mut matched = vec![false; if keeps_right { rows.len() } else { 0 }];
        let go_on = self.read(&join.left, frame, outer, &mut |frame| {
            let key = self.key(join.keys.iter().map(|(left, _)| left), &Env { row: frame, outer })?;
            let mut found = false;
            for at in key.and_then(|key| index.get(&key)).into_iter().flatten() {
                frame[join.right_slots.clone()].clone_from_slice(&rows[*at]);
                if joined(frame)? {
                    found = true;
                    if keeps_right {
                        matched[*at] = true;
                    }
                    if !emit(frame)? {
                        return Ok(false);
                    }
                }
            }
            if keeps_left && !found {
                frame[join.right_slots.clone()].fill(Value::Null);
                return emit(frame);
            }
            Ok(true)
        })?;
        if !go_on {
            return Ok(false);
        }
        for (row, _) in rows.into_iter().zip(matched).filter(|(_, matched)| !matched) {
            frame[join.left_slots.clone()].fill(Value::Null);
            place(frame, join.right_slots.start, row);
            if !emit(frame)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The values that rows are joined by; none when one is null, which is equal to nothing.
    fn key<'e>(&self, exprs: impl Iterator<Item = &'e Expr>, env: &Env<'_>) -> Result<Option<Key>, SqlError> {
        let values = exprs.map(|expr| self.eval(expr, env)).collect::<Result<Vec<_>, _>>()?;
        Ok((!values.iter().any(Value::is_null)).then_some(Key(values)))
    }

    fn is_true(&self, expr: &Expr, env: &Env<'_>) -> Result<bool, SqlError> {
        Ok(matches!(self.eval(expr, env)?, Value::Bool(true)))
    }

    /// The value of an expression.
    pub(super) fn eval(&self, expr: &Expr, env: &Env<'_>) -> Result<Value, SqlError> {
        if let Some(value) = peek(expr, env) {
            return Ok(value.clone());
        }
        Ok(match expr {
            Expr::Constant(_) | Expr::Column { .. } => Value::Null,
            Expr::Field(record, index) => match self.eval(record, env)? {
                Value::Struct(fields) => fields[*index].clone(),
                _ => Value::Null,
            },
            Expr::Call { function, arguments, safe } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let value = self.eval(argument, env)?;
                    if value.is_null() && !function.nulls {
                        return Ok(Value::Null);
                    }
                    values.push(value);
                }
                match (function.eval)(&values) {
                    Err(error) if *safe && error.reason != super::Reason::Unsupported => Value::Null,
                    outcome => outcome?,
                }
            }
            Expr::Cast { value, from, to, safe } => match cast::cast(self.eval(value, env)?, from, to) {
                Err(error) if *safe && error.reason != super::Reason::Unsupported => Value::Null,
                outcome => outcome?,
            },
            Expr::ToJson { value, kind } => Value::Json(Arc::new(super::json::of_value(&self.eval(value, env)?, kind))),
            Expr::And(left, right) => match self.eval(left, env)? {
                Value::Bool(false) => Value::Bool(false),
                left => match (left, self.eval(right, env)?) {
                    (_, Value::Bool(false)) => Value::Bool(false),
                    (Value::Bool(_), Value::Bool(_)) => Value::Bool(true),
                    _ => Value::Null,
                },
            },
            Expr::Or(left, right) => match self.eval(left, env)? {
                Value::Bool(true) => Value::Bool(true),
                left => match (left, self.eval(right, env)?) {
                    (_, Value::Bool(true)) => Value::Bool(true),
                    (Value::Bool(_), Value::Bool(_)) => Value::Bool(false),
                    _ => Value::Null,
                },
            },
            Expr::Not(operand) => match self.eval(operand, env)? {
                Value::Bool(truth) => Value::Bool(!truth),
                _ => Value::Null,
            },
            Expr::IsNull(operand) => Value::Bool(match peek(operand, env) {
                Some(value) => value.is_null(),
                None => self.eval(operand, env)?.is_null(),
            }),
            Expr::Compare { operator, left, right } => match (peek(left, env), peek(right, env)) {
                (Some(left), Some(right)) => compare::compare(*operator, left, right),
                _ => compare::compare(*operator, &self.eval(left, env)?, &self.eval(right, env)?),
            },
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if self.is_true(condition, env)? {
                        return self.eval(result, env);
                    }
                }
                self.eval(otherwise, env)?
            }
            Expr::Coalesce(operands) => {
                for operand in operands {
                    let value = self.eval(operand, env)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Value::Null
            }
            Expr::In { value, list } => {
                let value = self.eval(value, env)?;
                let mut outcome = Value::Bool(false);
                for element in list {
                    match compare::equal(&value, &self.eval(element, env)?) {
                        Some(true) => return Ok(Value::Bool(true)),
                        None => outcome = Value::Null,
                        Some(false) => {}
                    }
                }
                outcome
            }
            Expr::Array(elements) => {
                Value::Array(elements.iter().map(|element| self.eval(element, env)).collect::<Result<_, _>>()?)
            }
            Expr::Struct(fields) => {
                Value::Struct(fields.iter().map(|field| self.eval(field, env)).collect::<Result<_, _>>()?)
            }
            Expr::Subquery(subquery) => self.subquery(subquery, env)?,
            Expr::Refused(error) => return Err(error.clone()),
        })
    }

    fn subquery(&self, subquery: &Subquery, env: &Env<'_>) -> Result<Value, SqlError> {
        let Some(index) = subquery.constant else {
            return match &subquery.kind {
                SubqueryKind::In(value) => {
                    let value = self.eval(value, env)?;
                    let (set, has_null) = self.set_of(&subquery.query, Some(env))?;
                    Ok(is_in(value, &set, has_null))
                }
                kind => self.subquery_value(kind, &subquery.query, Some(env)),
            };
        };
        let constant = match self.constants[index].get() {
            Some(constant) => constant,
            None => {
                let constant = match &subquery.kind {
                    SubqueryKind::In(_) => {
                        let (set, has_null) = self.set_of(&subquery.query, None)?;
                        Constant::Set(set, has_null)
                    }
                    kind => Constant::Value(self.subquery_value(kind, &subquery.query, None)?),
                };
                self.constants[index].get_or_init(|| constant)
            }
        };
        Ok(match (constant, &subquery.kind) {
            (Constant::Set(set, has_null), SubqueryKind::In(value)) => is_in(self.eval(value, env)?, set, *has_null),
            (Constant::Value(value), _) => value.clone(),
            (Constant::Set(..), _) => Value::Null,
        })
    }

    fn set_of(&self, query: &Query, outer: Option<&Env<'_>>) -> Result<(HashSet<Key>, bool), SqlError> {
        let mut set = HashSet::new();
        let mut has_null = false;
        self.query(query, outer, &mut |row| {
            has_null |= row[0].is_null();
            set.insert(Key(std::mem::take(row)));
            Ok(true)
        })?;
        Ok((set, has_null))
    }

    fn subquery_value(&self, kind: &SubqueryKind, query: &Query, outer: Option<&Env<'_>>) -> Result<Value, SqlError> {
        let mut values = Vec::new();
        let most = match kind {
            SubqueryKind::Scalar => 2,
            SubqueryKind::Exists => 1,
            _ => usize::MAX,
        };
        self.query(query, outer, &mut |row| {
            values.push(row.first_mut().map_or(Value::Null, |value| std::mem::replace(value, Value::Null)));
            Ok(values.len() < most)
        })?;
        match kind {
            SubqueryKind::Scalar if values.len() > 1 => {
                Err(SqlError::query("Scalar subquery produced more than one element"))
            }
            SubqueryKind::Scalar => Ok(values.pop().unwrap_or(Value::Null)),
            SubqueryKind::Exists => Ok(Value::Bool(!values.is_empty())),
            _ => Ok(Value::array(values)),
        }
    }
}

/// The value of an expression that only follows a path, without a copy.
fn peek<'v>(expr: &'v Expr, env: &Env<'v>) -> Option<&'v Value> {
    match expr {
        Expr::Constant(value) => Some(value),
        Expr::Column { depth, slot } => {
            let mut env = env;
            for _ in 0..*depth {
                env = env.outer?;
            }
            env.row.get(*slot)
        }
        Expr::Field(record, index) => match peek(record, env)? {
            Value::Struct(fields) => fields.get(*index),
            _ => Some(&Value::Null),
        },
        _ => None,
    }
}

fn place(frame: &mut Row, first: usize, values: impl IntoIterator<Item = Value>) {
    for (slot, value) in frame[first..].iter_mut().zip(values) {
        *slot = value;
    }
}

fn is_in(value: Value, set: &HashSet<Key>, has_null: bool) -> Value {
    if value.is_null() {
        return if set.is_empty() { Value::Bool(false) } else { Value::Null };
    }
    match set.contains(&Key(vec![value])) {
        true => Value::Bool(true),
        false if has_null => Value::Null,
        false => Value::Bool(false),
    }
}

/// Groups that grow row by row.
struct Groups<'a> {
    group: &'a Group,
    index: HashMap<Key, usize>,
    states: Vec<Vec<State>>,
    keys: Vec<Vec<Value>>,
}

impl<'a> Groups<'a> {
    fn new(group: &'a Group) -> Self {
        Self { group, index: HashMap::new(), states: Vec::new(), keys: Vec::new() }
    }

    fn add(&mut self, run: &Run<'_>, env: &Env<'_>) -> Result<(), SqlError> {
        let keys = self.group.keys.iter().map(|key| run.eval(key, env)).collect::<Result<Vec<_>, _>>()?;
        let mut inputs = Vec::with_capacity(self.group.aggregates.len());
        for (_, aggregate) in &self.group.aggregates {
            let value = aggregate.argument.as_ref().map_or(Ok(Value::Int64(1)), |argument| run.eval(argument, env))?;
            let order = aggregate.order.iter().map(|order| run.eval(&order.by, env)).collect::<Result<Vec<_>, _>>()?;
            let having = aggregate.having.as_ref().map(|(by, _)| run.eval(by, env)).transpose()?;
            inputs.push((value, order, having));
        }
        let several = self.group.sets.len() > 1;
        for (number, set) in self.group.sets.iter().enumerate() {
            let mut keys = keys.clone();
            keys.iter_mut().zip(set).filter(|(_, kept)| !**kept).for_each(|(key, _)| *key = Value::Null);
            let mut key = Key(keys.clone());
            if several {
                // A null of a total is no null of the data.
                key.0.push(Value::Int64(number as i64));
            }
            let at = match self.index.get(&key) {
                Some(at) => *at,
                None => self.open(key, keys),
            };
            if several {
                for (state, (value, order, having)) in self.states[at].iter_mut().zip(&inputs) {
                    state.add(value.clone(), order.clone(), having.clone());
                }
            } else {
                for (state, (value, order, having)) in self.states[at].iter_mut().zip(inputs.drain(..)) {
                    state.add(value, order, having);
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, key: Key, keys: Vec<Value>) -> usize {
        self.index.insert(key, self.states.len());
        self.keys.push(keys);
        self.states.push(self.group.aggregates.iter().map(|(_, aggregate)| State::new(aggregate)).collect());
        self.states.len() - 1
    }

    /// The keys and the results of each group. Without keys there is one group, even of no rows.
    fn rows(mut self) -> Result<Vec<Row>, SqlError> {
        if self.states.is_empty() && self.group.sets.iter().any(|set| !set.contains(&true)) {
            let keys = vec![Value::Null; self.group.keys.len()];
            self.open(Key(Vec::new()), keys);
        }
        let rows = self.keys.into_iter().zip(self.states).map(|(mut row, states)| {
            row.resize(self.group.slots, Value::Null);
            for (state, (slot, aggregate)) in states.iter().zip(&self.group.aggregates) {
                row[*slot] = state.result(aggregate)?;
            }
            Ok(row)
        });
        rows.collect()
    }
}
