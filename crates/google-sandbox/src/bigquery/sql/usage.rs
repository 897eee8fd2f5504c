//! Which columns a statement reads: what isn't needed for its result is not read, and not counted by a dry run.

use super::plan::{Body, Expr, From, Query, Select, Statement, SubqueryKind, WindowFunction};
use crate::bigquery::value::Value;

/// Calls `found` for each column of an expression, of its subqueries too: how many blocks outside the expression's own it is.
pub(super) fn columns(expr: &Expr, found: &mut dyn FnMut(usize, usize)) {
    columns_at(expr, 0, found);
}

fn columns_at(expr: &Expr, level: usize, found: &mut dyn FnMut(usize, usize)) {
    if let Expr::Column { depth, slot } = expr
        && *depth >= level
    {
        found(depth - level, *slot);
    }
    if let Expr::Subquery(subquery) = expr {
        of_query(&subquery.query, level + 1, found);
    }
    expr.children().into_iter().for_each(|child| columns_at(child, level, found));
}

/// Whether a query depends on the row of a block outside it.
pub(super) fn is_correlated(query: &Query) -> bool {
    let mut correlated = false;
    of_query(query, 1, &mut |_, _| correlated = true);
    correlated
}

/// Columns outside a query whose blocks are at a level: those of blocks further out.
fn of_query(query: &Query, level: usize, found: &mut dyn FnMut(usize, usize)) {
    match &query.body {
        Body::Select(select) => {
            expressions(select).into_iter().for_each(|expr| columns_at(expr, level, found));
            if let Some(from) = &select.from {
                of_from(from, level, found);
            }
        }
        Body::Query(query) => of_query(query, level, found),
        Body::Set { inputs, .. } => inputs.iter().for_each(|input| of_query(&input.query, level, found)),
    }
}

fn of_from(from: &From, level: usize, found: &mut dyn FnMut(usize, usize)) {
    match from {
        From::Scan { .. } | From::Common { .. } => {}
        From::Query { query, .. } => of_query(query, level, found),
        From::Unnest { array, .. } => columns_at(array, level, found),
        From::Join(join) => {
            of_from(&join.left, level, found);
            of_from(&join.right, level, found);
            let keys = join.keys.iter().flat_map(|(left, right)| [left, right]);
            keys.chain(&join.on)
                .chain(join.merged.iter().map(|(_, expr)| expr))
                .for_each(|expr| columns_at(expr, level, found));
        }
    }
}

/// All expressions of a block but those of `FROM`.
fn expressions(select: &Select) -> Vec<&Expr> {
    let mut all: Vec<&Expr> =
        select.outputs.iter().chain(&select.filter).chain(&select.having).chain(&select.qualify).collect();
    if let Some(group) = &select.group {
        all.extend(&group.keys);
        all.extend(group.aggregates.iter().flat_map(|(_, aggregate)| aggregate.expressions()));
    }
    all.extend(select.windows.iter().flat_map(window_expressions));
    all
}

fn window_expressions(window: &super::plan::Window) -> Vec<&Expr> {
    let mut all: Vec<&Expr> = window.partition.iter().chain(window.order.iter().map(|order| &order.by)).collect();
    for bound in [&window.frame.start, &window.frame.end] {
        if let super::plan::Bound::Preceding(by) | super::plan::Bound::Following(by) = bound {
            all.push(by);
        }
    }
    match &window.function {
        WindowFunction::Aggregate(aggregate) => all.extend(aggregate.expressions()),
        WindowFunction::Named { arguments, .. } => all.extend(arguments),
    }
    all
}

/// Removes from a statement what its result doesn't need, and writes into its scans which columns they read.
pub(super) fn prune(statement: &mut Statement) {
    let mut usage = Usage {
        scans: statement.scans.iter().map(|scan| vec![false; scan.width + 1]).collect(),
        commons: statement.commons.iter().map(|common| (0, vec![false; common.query.width])).collect(),
        frames: Vec::new(),
        repeated: 0,
    };
    let all = vec![true; statement.query.width];
    usage.query(&mut statement.query, &all);
    // A common table is only read by what comes after it, or by itself.
    for index in (0..statement.commons.len()).rev() {
        let (uses, needed) = usage.commons[index].clone();
        let common = &mut statement.commons[index];
        if uses == 0 {
            continue;
        }
        let all = vec![true; common.query.width];
        let keeps_all = common.recursion.is_some();
        usage.query(&mut common.query, if keeps_all { &all } else { &needed });
        if let Some((step, _)) = &mut common.recursion {
            usage.query(step, &all);
        }
        common.once = uses == 1 && !keeps_all;
    }
    for (scan, used) in statement.scans.iter_mut().zip(usage.scans) {
        scan.columns = (0..scan.width).filter(|column| used[*column]).collect();
    }
}

struct Usage {
    scans: Vec<Vec<bool>>,
    /// How often each common table is read, and which of its columns are.
    commons: Vec<(usize, Vec<bool>)>,
    /// Slots that are used in the blocks around, the innermost last.
    frames: Vec<Vec<bool>>,
    /// How many subqueries that run for each row are around.
    repeated: usize,
}

impl Usage {
    fn query(&mut self, query: &mut Query, needed: &[bool]) {
        let mut needed = needed.to_vec();
        needed.resize(query.width, false);
        for order in &query.order {
            needed.resize(needed.len().max(order.by + 1), false);
            needed[order.by] = true;
        }
        match &mut query.body {
            Body::Select(select) => self.select(select, needed),
            Body::Query(query) => self.query(query, &needed),
            Body::Set { operation, distinct, inputs } => {
                // Rows are compared as wholes.
                let whole = *distinct || *operation != super::plan::SetOperation::Union;
                let needed = if whole { vec![true; needed.len()] } else { needed };
                for input in inputs {
                    self.query(&mut input.query, &needed);
                    let unneeded = input.casts.iter_mut().zip(&needed).filter(|(_, needed)| !**needed);
                    unneeded.for_each(|(cast, _)| *cast = None);
                }
            }
        }
    }

    fn select(&mut self, select: &mut Select, mut needed: Vec<bool>) {
        needed.resize(select.outputs.len(), false);
        if select.distinct {
            needed.fill(true);
        }
        for (output, needed) in select.outputs.iter_mut().zip(&needed) {
            if !needed {
                *output = Expr::Constant(Value::Null);
            }
        }
        let slots = select.group.as_ref().map_or(select.slots, |group| group.slots);
        self.frames.push(vec![false; slots]);
        let shown = select.outputs.iter_mut().chain(&mut select.having).chain(&mut select.qualify);
        shown.for_each(|expr| self.expr(expr));
        // A window may use another's slot only by way of an output, so the ones that nothing uses can go.
        let used = self.frames.last().cloned().unwrap_or_default();
        select.windows.retain(|window| used[window.slot]);
        for window in &mut select.windows {
            for expr in window.expressions_mut() {
                self.expr(expr);
            }
        }
        if let Some(group) = &mut select.group {
            let used = self.frames.pop().unwrap_or_default();
            group.aggregates.retain(|(slot, _)| used[*slot]);
            self.frames.push(vec![false; select.slots]);
            group.keys.iter_mut().for_each(|key| self.expr(key));
            for (_, aggregate) in &mut group.aggregates {
                aggregate.expressions_mut().into_iter().for_each(|expr| self.expr(expr));
            }
        }
        if let Some(filter) = &mut select.filter {
            self.expr(filter);
        }
        if let Some(from) = &mut select.from {
            self.join_conditions(from);
            self.from(from);
        }
        self.frames.pop();
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Expr::Column { depth, slot } = expr {
            let frames = self.frames.len();
            if let Some(used) =
                frames.checked_sub(depth.saturating_add(1)).and_then(|frame| self.frames[frame].get_mut(*slot))
            {
                *used = true;
            }
            return;
        }
        if let Expr::Subquery(subquery) = expr {
            let repeats = usize::from(subquery.constant.is_none());
            let exists = matches!(subquery.kind, SubqueryKind::Exists);
            self.repeated += repeats;
            let needed = vec![!exists; subquery.query.width];
            self.query(&mut subquery.query, &needed);
            self.repeated -= repeats;
        }
        for child in expr.children_mut() {
            self.expr(child);
        }
    }

    /// Marks what joins and arrays need, before the inputs are looked at.
    fn join_conditions(&mut self, from: &mut From) {
        match from {
            From::Unnest { array, .. } => self.expr(array),
            From::Join(join) => {
                let merged = join.merged.iter_mut().map(|(_, expr)| expr);
                let keys = join.keys.iter_mut().flat_map(|(left, right)| [left, right]);
                keys.chain(&mut join.on).chain(merged).for_each(|expr| self.expr(expr));
                self.join_conditions(&mut join.left);
                self.join_conditions(&mut join.right);
            }
            _ => {}
        }
    }

    fn from(&mut self, from: &mut From) {
        let frame = self.frames.last().cloned().unwrap_or_default();
        match from {
            From::Scan { scan, first } => {
                let used = &mut self.scans[*scan];
                used.iter_mut().zip(&frame[*first..]).for_each(|(used, slot)| *used |= slot);
            }
            From::Common { index, first } => {
                let (uses, used) = &mut self.commons[*index];
                *uses += if self.repeated > 0 { 2 } else { 1 };
                used.iter_mut().zip(&frame[*first..]).for_each(|(used, slot)| *used |= slot);
            }
            From::Query { query, first } => {
                // The query doesn't see this block's row.
                let own = self.frames.pop();
                let needed = frame[*first..*first + query.width].to_vec();
                self.query(query, &needed);
                self.frames.extend(own);
            }
            From::Unnest { .. } => {}
            From::Join(join) => {
                self.from(&mut join.left);
                self.from(&mut join.right);
            }
        }
    }
}
