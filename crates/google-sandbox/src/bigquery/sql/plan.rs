//! A bound statement: names are slots, types are known, functions are chosen.
//!
//! Each query block has one row of slots, which what comes from `FROM` fills; in a block that groups, a second row has the group's
//! keys and then its aggregates. Values of windows have slots after them. A column of an outer block is found by counting blocks
//! outwards.

use std::ops::Range;
use std::sync::Arc;

use super::aggregate::Aggregate;
use super::catalog::{Row, Table};
use super::error::SqlError;
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

/// What a function does with its arguments.
pub(super) type Eval = fn(&[Value]) -> Result<Value, SqlError>;

/// A function with the signature that was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) eval: Eval,
    /// Whether it sees nulls; else a null argument makes a null.
    pub(super) nulls: bool,
}

/// Functions are the same when their names are: the arguments tell signatures apart.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Constant(Value),
    /// A slot of the block `depth` blocks outwards.
    Column {
        depth: usize,
        slot: usize,
    },
    /// A field of a struct.
    Field(Box<Expr>, usize),
    Call {
        function: Function,
        arguments: Vec<Expr>,
        safe: bool,
    },
    Cast {
        value: Box<Expr>,
        from: Type,
        to: Type,
        safe: bool,
    },
    /// The JSON of a value of a type.
    ToJson {
        value: Box<Expr>,
        kind: Type,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    Compare {
        operator: Comparison,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// The first branch whose condition is true.
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    /// Null when one of the list is null and none is equal.
    In {
        value: Box<Expr>,
        list: Vec<Expr>,
    },
    Array(Vec<Expr>),
    Struct(Vec<Expr>),
    Subquery(Subquery),
    /// What can be prepared but not run: a parameter without a value, a routine.
    Refused(SqlError),
}

impl Expr {
    /// The expressions that this one is made of. A subquery's own expressions are not among them.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Constant(_) | Self::Column { .. } | Self::Refused(_) => Vec::new(),
            Self::Field(one, _)
            | Self::Cast { value: one, .. }
            | Self::ToJson { value: one, .. }
            | Self::Not(one)
            | Self::IsNull(one) => {
                vec![one]
            }
            Self::And(left, right) | Self::Or(left, right) | Self::Compare { left, right, .. } => vec![left, right],
            Self::Call { arguments: many, .. } | Self::Coalesce(many) | Self::Array(many) | Self::Struct(many) => {
                many.iter().collect()
            }
            Self::Case { branches, otherwise } => {
                branches.iter().flat_map(|(test, result)| [test, result]).chain([&**otherwise]).collect()
            }
            Self::In { value, list } => std::iter::once(&**value).chain(list).collect(),
            Self::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::In(value) => vec![value],
                _ => Vec::new(),
            },
        }
    }

    /// As [`Expr::children`].
    pub(super) fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::Constant(_) | Self::Column { .. } | Self::Refused(_) => Vec::new(),
            Self::Field(one, _)
            | Self::Cast { value: one, .. }
            | Self::ToJson { value: one, .. }
            | Self::Not(one)
            | Self::IsNull(one) => {
                vec![one]
            }
            Self::And(left, right) | Self::Or(left, right) | Self::Compare { left, right, .. } => vec![left, right],
            Self::Call { arguments: many, .. } | Self::Coalesce(many) | Self::Array(many) | Self::Struct(many) => {
                many.iter_mut().collect()
            }
            Self::Case { branches, otherwise } => {
                branches.iter_mut().flat_map(|(test, result)| [test, result]).chain([&mut **otherwise]).collect()
            }
            Self::In { value, list } => std::iter::once(&mut **value).chain(list).collect(),
            Self::Subquery(subquery) => match &mut subquery.kind {
                SubqueryKind::In(value) => vec![value],
                _ => Vec::new(),
            },
        }
    }

    /// The parts of a condition that must all be true.
    pub(super) fn conjuncts(self, into: &mut Vec<Expr>) {
        match self {
            Self::And(left, right) => {
                left.conjuncts(into);
                right.conjuncts(into);
            }
            other => into.push(other),
        }
    }

    /// All parts must be true; none for no parts.
    pub(super) fn all(parts: Vec<Expr>) -> Option<Expr> {
        parts.into_iter().reduce(|left, right| Self::And(Box::new(left), Box::new(right)))
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `IS DISTINCT FROM`: nulls are equal, and the result is never null.
    Distinct,
    NotDistinct,
}

/// A query inside an expression.
#[derive(Clone, Debug)]
pub(super) struct Subquery {
    pub(super) kind: SubqueryKind,
    pub(super) query: Box<Query>,
    /// Index among the statement's subqueries that don't depend on a row, whose result is kept.
    pub(super) constant: Option<usize>,
}

/// Subqueries are never the same: Google doesn't compare them either when it looks for what is grouped by.
impl PartialEq for Subquery {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// What a subquery gives.
#[derive(Clone, Debug)]
pub(super) enum SubqueryKind {
    Scalar,
    Exists,
    Array,
    In(Box<Expr>),
}

/// A query with its order and its limit.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) body: Body,
    /// Columns of the body's rows; those after `width` are only there for the order.
    pub(super) order: Vec<Order<usize>>,
    pub(super) width: usize,
    pub(super) limit: Option<u64>,
    pub(super) offset: u64,
}

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order<T> {
    pub(super) by: T,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Select(Box<Select>),
    Query(Box<Query>),
    Set { operation: SetOperation, distinct: bool, inputs: Vec<Input> },
}

/// A side of a set operation, with the casts that give it the common types.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) query: Query,
    /// From and to, for columns whose type changes.
    pub(super) casts: Vec<Option<(Type, Type)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// A query block.
#[derive(Clone, Debug)]
pub(super) struct Select {
    /// Slots of its row.
    pub(super) slots: usize,
    pub(super) from: Option<From>,
    pub(super) filter: Option<Expr>,
    pub(super) group: Option<Group>,
    pub(super) having: Option<Expr>,
    pub(super) windows: Vec<Window>,
    pub(super) qualify: Option<Expr>,
    pub(super) outputs: Vec<Expr>,
    pub(super) distinct: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) keys: Vec<Expr>,
    /// Which keys each grouping set has: one set of all keys, or those of a ROLLUP.
    pub(super) sets: Vec<Vec<bool>>,
    /// With the slots that their results have.
    pub(super) aggregates: Vec<(usize, Aggregate)>,
    /// Slots of the row that a group has: the keys, then aggregates and windows.
    pub(super) slots: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) slot: usize,
    pub(super) function: WindowFunction,
    pub(super) partition: Vec<Expr>,
    pub(super) order: Vec<Order<Expr>>,
    pub(super) frame: Frame,
}

impl Window {
    /// The expressions that it evaluates.
    pub(super) fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        let mut all: Vec<&mut Expr> =
            self.partition.iter_mut().chain(self.order.iter_mut().map(|order| &mut order.by)).collect();
        for bound in [&mut self.frame.start, &mut self.frame.end] {
            if let Bound::Preceding(by) | Bound::Following(by) = bound {
                all.push(by);
            }
        }
        match &mut self.function {
            WindowFunction::Aggregate(aggregate) => all.extend(aggregate.expressions_mut()),
            WindowFunction::Named { arguments, .. } => all.extend(arguments),
        }
        all
    }
}

#[derive(Clone, Debug)]
pub(super) enum WindowFunction {
    Aggregate(Aggregate),
    /// One of the functions of numbering and navigation.
    Named {
        name: &'static str,
        arguments: Vec<Expr>,
        ignore_nulls: bool,
    },
}

/// The rows around a row that a window function sees.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// By values of the one order key, or else by rows.
    pub(super) range: bool,
    pub(super) start: Bound,
    pub(super) end: Bound,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    Unbounded,
    Current,
    Preceding(Expr),
    Following(Expr),
}

/// What a block reads.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// Index into the statement's scans; its columns, and then the suffix of a wildcard.
    Scan {
        scan: usize,
        first: usize,
    },
    /// A query, which sees the blocks outside this one.
    Query {
        query: Box<Query>,
        first: usize,
    },
    /// Index into the statement's common tables.
    Common {
        index: usize,
        first: usize,
    },
    /// Elements of an array, and their indexes in the slot after.
    Unnest {
        array: Expr,
        first: usize,
        offset: bool,
    },
    Join(Box<Join>),
}

/// Two inputs, side by side.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub(super) kind: JoinKind,
    pub(super) left: From,
    pub(super) right: From,
    /// The right side depends on the left side's row.
    pub(super) lateral: bool,
    /// What must be equal, and what else must be true.
    pub(super) keys: Vec<(Expr, Expr)>,
    pub(super) on: Option<Expr>,
    pub(super) left_slots: Range<usize>,
    pub(super) right_slots: Range<usize>,
    /// Slots of columns of `USING`, with what they hold: the left side's value, or else the right side's.
    pub(super) merged: Vec<(usize, Expr)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

/// A table that `WITH` names.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) query: Query,
    /// Read only once, so that its rows need not be kept.
    pub(super) once: bool,
    /// The part that reads the table itself, and whether rows that came before are dropped.
    pub(super) recursion: Option<(Query, bool)>,
}

/// A read of a table, or of the tables of a wildcard.
pub(super) struct Scan {
    pub(super) parts: Vec<Part>,
    /// Top-level columns that are read, in order.
    pub(super) columns: Vec<usize>,
    /// How many columns there are; the suffix of a wildcard has the slot after them.
    pub(super) width: usize,
    pub(super) suffix: bool,
}

/// A table of a scan.
pub(super) struct Part {
    pub(super) table: Arc<dyn Table>,
    /// What `_TABLE_SUFFIX` is.
    pub(super) suffix: Value,
    /// Rows that are read.
    pub(super) rows: Vec<Range<u64>>,
    /// Where each column of the scan is in this table; shards may lack some.
    pub(super) map: Option<Vec<Option<usize>>>,
}

/// A whole statement.
pub(super) struct Statement {
    pub(super) query: Query,
    pub(super) scans: Vec<Scan>,
    pub(super) commons: Vec<Common>,
    /// How many subqueries depend on no row.
    pub(super) constants: usize,
}

impl Part {
    /// Where a column of the scan is in this table.
    pub(super) fn column(&self, column: usize) -> Option<usize> {
        self.map.as_ref().map_or(Some(column), |map| map[column])
    }

    /// The columns of these rows that the scan reads and the table has.
    pub(super) fn rows<'p>(&'p self, scan: &'p Scan, rows: Range<u64>) -> Box<dyn Iterator<Item = Row> + 'p> {
        let wanted = scan.columns.iter().filter_map(|column| self.column(*column)).collect();
        self.table.rows(rows, wanted)
    }

    /// Puts such a row into the slots of the scan.
    pub(super) fn place(&self, scan: &Scan, row: Row, slots: &mut [Value]) {
        let columns = scan.columns.iter().filter(|column| self.column(**column).is_some());
        for (column, value) in columns.zip(row) {
            slots[*column] = value;
        }
        if scan.suffix {
            slots[scan.width] = self.suffix.clone();
        }
    }
}
