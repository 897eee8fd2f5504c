//! Binds calls: of scalar functions, of aggregates, of window functions.

use sqlparser::ast::{
    DuplicateTreatment, Expr as Ast, Function as Call, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, HavingBoundKind, Ident, NullTreatment, OrderByExpr, OrderBySort, Spanned, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};

use super::aggregate::{self, Aggregate};
use super::bind::Binder;
use super::catalog::TableId;
use super::datetime::{self, Part};
use super::error::SqlError;
use super::expr::{Bound, Origin, compare, shown};
use super::functions::{self, Signature};
use super::lexer::position;
use super::plan::{
    Bound as FrameBound, Comparison, Expr, Frame, Function, Order, SubqueryKind, Window, WindowFunction,
};
use super::scope::{Clause, Scope, suggestion};
use super::text::DAY;
use super::window;
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

/// The arguments of a call that has only plain ones.
///
/// # Errors
/// When there are others.
pub(super) fn arguments(call: &Call) -> Result<Vec<&Ast>, SqlError> {
    let list = match &call.args {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::Subquery(_) => {
            return Err(SqlError::unsupported(format_args!("a query as the argument of {}", call.name)));
        }
        FunctionArguments::List(list) => list,
    };
    let plain = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(SqlError::unsupported(format_args!("the argument {other}"))),
    });
    plain.collect()
}

/// The name of a function, in capitals and without `SAFE.`.
fn name_of(call: &Call) -> (String, bool) {
    let name = call.name.to_string().replace('`', "").to_ascii_uppercase();
    match name.strip_prefix("SAFE.") {
        Some(rest) => (rest.to_owned(), true),
        None => (name, false),
    }
}

impl Binder<'_> {
    /// Binds a call.
    pub(super) fn function(&self, call: &Call, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let place = position(call.name.span());
        let (name, safe) = name_of(call);
        if call.filter.is_some() || !call.within_group.is_empty() || !matches!(call.parameters, FunctionArguments::None)
        {
            return Err(SqlError::unsupported(format_args!("this call of {name}")));
        }
        if let Some(over) = &call.over {
            return self.window(&name, call, over, scope).map_err(|error| error.at(place));
        }
        if aggregate::named(&name).is_some() {
            return self.aggregate_call(&name, call, scope).map_err(|error| error.at(place));
        }
        if window::NAMED.iter().any(|(known, _)| *known == name) {
            return Err(
                SqlError::query(format!("Analytic function {name} cannot be called without an OVER clause")).at(place)
            );
        }
        if let (FunctionArguments::Subquery(query), "ARRAY") = (&call.args, name.as_str()) {
            let (expr, element) = self.subquery(SubqueryKind::Array, query, scope)?;
            if element.element().is_some() {
                let message = format!(
                    "Cannot use array subquery with column of type {element} because nested arrays are not supported"
                );
                return Err(SqlError::query(message));
            }
            return Ok(Bound::new(expr, element.array()));
        }
        let arguments = arguments(call)?;
        let bound = match self.special(&name, &arguments, scope)? {
            Some(bound) => return Ok(bound),
            None if functions::signatures(&name).is_empty() => return self.unknown(call, &arguments, scope),
            None => self.bind_arguments(&name, &arguments, scope)?,
        };
        self.call_bound(&name, bound, safe).map_err(|error| error.at(place))
    }

    /// Binds a call of a function that has syntax of its own.
    pub(super) fn named(&self, name: &str, arguments: &[&Ast], scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let bound = self.bind_arguments(name, arguments, scope)?;
        self.call_bound(name, bound, false)
    }

    fn bind_arguments(&self, name: &str, arguments: &[&Ast], scope: &Scope<'_>) -> Result<Vec<Bound>, SqlError> {
        let signatures = functions::signatures(name);
        let takes_part = |index: usize| {
            signatures.iter().any(|signature| signature.parameter(index).is_some_and(functions::Parameter::is_part))
        };
        let bound = arguments.iter().enumerate().map(|(index, argument)| match argument {
            Ast::Identifier(_) | Ast::Function(_) if takes_part(index) => {
                self.part(&argument.to_string()).map_err(|error| error.at(position(argument.span())))
            }
            argument => self.expr(argument, scope),
        });
        bound.collect()
    }

    /// A date part as an argument.
    pub(super) fn part(&self, name: &str) -> Result<Bound, SqlError> {
        let invalid = || SqlError::query(format!("A valid date part name is required but found {name}"));
        let part = Part::named(name).ok_or_else(invalid)?;
        Ok(Bound::literal(part.to_value(), Type::Int64))
    }

    /// Functions whose result or arguments no signature can say.
    fn special(&self, name: &str, arguments: &[&Ast], scope: &Scope<'_>) -> Result<Option<Bound>, SqlError> {
        let operands = || arguments.iter().map(|argument| self.expr(argument, scope)).collect::<Result<Vec<_>, _>>();
        let count = |least: usize, most: usize| {
            if (least..=most).contains(&arguments.len()) {
                return Ok(());
            }
            let message = format!(
                "No matching signature for function {name}\n  Argument count mismatch: found {}",
                arguments.len()
            );
            Err(SqlError::query(message))
        };
        let what = format!("function {name}");
        let now = self.session.now;
        Ok(Some(match name {
            "IF" => {
                count(3, 3)?;
                let condition = self.bool(arguments[0], scope, &what)?;
                let (results, kind) =
                    self.common(vec![self.expr(arguments[1], scope)?, self.expr(arguments[2], scope)?], &what)?;
                let mut results = results.into_iter();
                let then = results.next().unwrap_or(Expr::Constant(Value::Null));
                let otherwise = Box::new(results.next().unwrap_or(Expr::Constant(Value::Null)));
                Bound::new(Expr::Case { branches: vec![(condition, then)], otherwise }, kind)
            }
            "COALESCE" | "IFNULL" => {
                count(if name == "IFNULL" { 2 } else { 1 }, if name == "IFNULL" { 2 } else { usize::MAX })?;
                let (operands, kind) = self.common(operands()?, &what)?;
                Bound::new(Expr::Coalesce(operands), kind)
            }
            "NULLIF" => {
                count(2, 2)?;
                let (operands, kind) = self.common(operands()?, &what)?;
                let [value, other] = operands.try_into().map_err(|_| SqlError::query("NULLIF takes two arguments"))?;
                let equal = compare(Comparison::Equal, value.clone(), other);
                let branches = vec![(equal, Expr::Constant(Value::Null))];
                Bound::new(Expr::Case { branches, otherwise: Box::new(value) }, kind)
            }
            "CURRENT_TIMESTAMP" => {
                count(0, 0)?;
                self.changes_with_time();
                Bound::new(Expr::Constant(Value::Timestamp(now)), Type::Timestamp)
            }
            "CURRENT_DATE" | "CURRENT_DATETIME" | "CURRENT_TIME" => {
                count(0, 1)?;
                self.changes_with_time();
                let zone = match operands()?.first().map(|bound| &bound.expr) {
                    None => "UTC".to_owned(),
                    Some(Expr::Constant(Value::String(zone))) => zone.to_string(),
                    Some(_) => {
                        return Err(SqlError::unsupported(format_args!("{name} with a zone that isn't a literal")));
                    }
                };
                let civil = datetime::local(now, &datetime::zone(&zone)?);
                let (value, kind) = match name {
                    "CURRENT_DATE" => (Value::Date(datetime::day_of(civil)), Type::Date),
                    "CURRENT_TIME" => (Value::Time(civil.rem_euclid(DAY)), Type::Time),
                    _ => (Value::DateTime(civil), Type::DateTime),
                };
                Bound::new(Expr::Constant(value), kind)
            }
            "TO_JSON" | "TO_JSON_STRING" => {
                count(1, 1)?;
                let [operand] = operands()?.try_into().map_err(|_| SqlError::query("TO_JSON takes one argument"))?;
                let json = Bound::new(Expr::ToJson { value: Box::new(operand.expr), kind: operand.kind }, Type::Json);
                if name == "TO_JSON" { json } else { self.call_bound("$json_text", vec![json], false)? }
            }
            "FORMAT" => {
                let mut bounds = operands()?;
                if bounds.is_empty() {
                    return Err(SqlError::query("FORMAT needs a format string"));
                }
                // The values keep their types: what they may be, the format string says.
                let format = bounds.remove(0);
                let format = self
                    .coerce(format, &Type::String)?
                    .ok_or_else(|| SqlError::query("FORMAT needs a format string"))?;
                let [function] =
                    functions::signatures("$format").try_into().map_err(|_| SqlError::unsupported("FORMAT"))?;
                let arguments = std::iter::once(format).chain(bounds.into_iter().map(|bound| bound.expr)).collect();
                Bound::new(Expr::Call { function: chosen(&function), arguments, safe: false }, Type::String)
            }
            _ => return Ok(None),
        }))
    }

    /// A call of no function that is built in: a routine, a known function that this sandbox lacks, or a mistake.
    fn unknown(&self, call: &Call, arguments: &[&Ast], scope: &Scope<'_>) -> Result<Bound, SqlError> {
        let place = position(call.name.span());
        let written = call.name.to_string().replace('`', "");
        let (name, _) = name_of(call);
        let path: Vec<&str> = written.split('.').collect();
        if let Some(id) = self.routine_id(&path) {
            for argument in arguments {
                self.expr(argument, scope)?;
            }
            if let Some(kind) = self.session.catalog.routine(&id)? {
                self.uses_routine(id.clone());
                let refused = SqlError::unsupported(format_args!("running the routine {id}"));
                return Ok(Bound::new(Expr::Refused(refused), kind));
            }
        }
        if UNSUPPORTED.iter().any(|known| name == *known || known.ends_with('.') && name.starts_with(known)) {
            return Err(SqlError::unsupported(format_args!("the function {name}")).at(place));
        }
        let names: Vec<String> = functions::names().collect();
        let hint = suggestion(&written, names.iter().map(String::as_str));
        Err(SqlError::query(format!("Function not found: {written}{hint}")).at(place))
    }

    fn routine_id(&self, path: &[&str]) -> Option<TableId> {
        match path {
            [dataset, name] => Some(TableId::new(self.session.project, dataset, name)),
            [project, dataset, name] => Some(TableId::new(project, dataset, name)),
            _ => None,
        }
    }

    /// Chooses the signature that the arguments are nearest to.
    ///
    /// # Errors
    /// When none fits.
    pub(super) fn call_bound(&self, name: &str, arguments: Vec<Bound>, safe: bool) -> Result<Bound, SqlError> {
        let arguments = if name == "CONCAT" { self.as_texts(arguments)? } else { arguments };
        let signatures = functions::signatures(name);
        let mut best: Option<(u32, &Signature, Option<Type>)> = None;
        for signature in signatures.iter().filter(|signature| signature.takes(arguments.len())) {
            let Some((distance, any)) = fit(signature, &arguments) else { continue };
            if best.as_ref().is_none_or(|(least, ..)| distance < *least) {
                best = Some((distance, signature, any));
            }
        }
        let Some((_, signature, any)) = best else { return Err(no_signature(name, &signatures, &arguments)) };
        let mut exprs = Vec::with_capacity(arguments.len());
        for (index, argument) in arguments.into_iter().enumerate() {
            let kind = signature
                .parameter(index)
                .filter(|parameter| !parameter.is_part())
                .and_then(|parameter| parameter.kind(any.as_ref()));
            exprs.push(match kind {
                Some(kind) => self.coerce(argument, &kind)?.unwrap_or(Expr::Constant(Value::Null)),
                None => argument.expr,
            });
        }
        let kind = signature.result(any.as_ref());
        let call = Expr::Call { function: chosen(signature), arguments: exprs, safe };
        Ok(Bound::new(call, kind))
    }

    /// `CONCAT` takes whatever can become text, beside text.
    fn as_texts(&self, arguments: Vec<Bound>) -> Result<Vec<Bound>, SqlError> {
        let texts = arguments.into_iter().map(|argument| match argument.kind {
            Type::Int64
            | Type::Float64
            | Type::Numeric
            | Type::BigNumeric
            | Type::Bool
            | Type::Date
            | Type::DateTime
            | Type::Time
            | Type::Timestamp
                if matches!(argument.origin, Origin::Other | Origin::Literal) =>
            {
                self.explicit_cast(argument, &Type::String, false)
            }
            _ => Ok(argument),
        });
        texts.collect()
    }

    fn aggregate_call(&self, name: &str, call: &Call, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        match scope.clause.get() {
            clause @ (Clause::From | Clause::Where | Clause::GroupBy) => {
                return Err(SqlError::query(format!("Aggregate function {name} not allowed in {}", clause.name())));
            }
            Clause::Aggregate => return Err(SqlError::query("Aggregations of aggregations are not allowed")),
            _ => {}
        }
        let clause = scope.clause.replace(Clause::Aggregate);
        let before = scope.before_groups.replace(true);
        let bound = self.aggregate(name, call, scope);
        scope.before_groups.set(before);
        scope.clause.set(clause);
        let (aggregate, kind) = bound?;
        let known = {
            let calls = scope.calls.borrow();
            calls.aggregates.iter().find(|(_, known)| *known == aggregate).map(|(slot, _)| *slot)
        };
        let slot = known.unwrap_or_else(|| {
            let slot = scope.new_slot();
            scope.calls.borrow_mut().aggregates.push((slot, aggregate));
            slot
        });
        Ok(Bound::new(Expr::Column { depth: 0, slot }, kind))
    }

    /// An aggregate and the type of its result. The caller says which rows the argument sees.
    fn aggregate(&self, name: &str, call: &Call, scope: &Scope<'_>) -> Result<(Aggregate, Type), SqlError> {
        let mut function = aggregate::named(name).ok_or_else(|| SqlError::unsupported(name))?;
        let FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::unsupported(format_args!("this call of {name}")));
        };
        let mut distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = list.args.as_slice() {
            if name != "COUNT" {
                return Err(SqlError::query(format!("Argument * can only be used in COUNT(*), not in {name}")));
            }
            if distinct {
                return Err(SqlError::query("COUNT(*) cannot be used with DISTINCT"));
            }
            return Ok((plain(function), Type::Int64));
        }
        let arguments = arguments(call)?;
        let mut bounds = arguments.iter().map(|argument| self.expr(argument, scope)).collect::<Result<Vec<_>, _>>()?;
        let constant = |bound: Option<&Bound>| bound.map(|bound| bound.expr.clone());
        match (&mut function, constant(bounds.get(1))) {
            (aggregate::Function::StringAgg(separator), Some(Expr::Constant(Value::String(text)))) => *separator = text,
            (aggregate::Function::StringAgg(_), None) => {}
            (aggregate::Function::ApproxQuantiles(count), Some(Expr::Constant(Value::Int64(number)))) if number > 0 => {
                *count = usize::try_from(number).unwrap_or(1);
            }
            (_, None) if bounds.len() == 1 => {}
            _ => {
                let signatures = Vec::new();
                return Err(no_signature(name, &signatures, &bounds));
            }
        }
        let Some(argument) = (!bounds.is_empty()).then(|| bounds.remove(0)) else {
            return Err(no_signature(name, &[], &[]));
        };
        let argument = match (&function, &argument.origin) {
            (
                aggregate::Function::CountIf | aggregate::Function::LogicalAnd | aggregate::Function::LogicalOr,
                Origin::Undeclared(_) | Origin::Untyped,
            ) => {
                let expr = self.coerce(argument.clone(), &Type::Bool)?.unwrap_or(argument.expr);
                Bound::new(expr, Type::Bool)
            }
            _ => argument,
        };
        let kind =
            function.result(&argument.kind).ok_or_else(|| no_signature(name, &[], std::slice::from_ref(&argument)))?;
        distinct |= name == "APPROX_COUNT_DISTINCT";
        let mut aggregate =
            Aggregate { argument: Some(argument.expr), kind: argument.kind, distinct, ..plain(function) };
        aggregate.ignore_nulls = call.null_treatment == Some(NullTreatment::IgnoreNulls)
            || matches!(aggregate.function, aggregate::Function::ApproxQuantiles(_));
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => {
                    aggregate.ignore_nulls = *treatment == NullTreatment::IgnoreNulls
                }
                FunctionArgumentClause::OrderBy(keys) => aggregate.order = self.order(keys, scope)?,
                FunctionArgumentClause::Limit(limit) => {
                    let limit = self.count(limit, scope)?;
                    aggregate.limit = Some(usize::try_from(limit).unwrap_or(usize::MAX));
                }
                FunctionArgumentClause::Having(bound) => {
                    aggregate.having = Some((self.expr(&bound.1, scope)?.expr, bound.0 == HavingBoundKind::Max));
                }
                other => return Err(SqlError::unsupported(format_args!("{other} in {name}"))),
            }
        }
        Ok((aggregate, kind))
    }

    /// Keys of an order. The keys are bound as the scope says.
    pub(super) fn order(&self, keys: &[OrderByExpr], scope: &Scope<'_>) -> Result<Vec<Order<Expr>>, SqlError> {
        let keys = keys.iter().map(|key| {
            let bound = self.expr(&key.expr, scope)?;
            if let Type::Array(_) | Type::Struct(_) | Type::Json | Type::Geography = bound.kind {
                let message = format!("ORDER BY does not support expressions of type {}", bound.kind);
                return Err(SqlError::query(message).at(position(key.expr.span())));
            }
            Ok(directed(bound.expr, key))
        });
        keys.collect()
    }

    fn window(&self, name: &str, call: &Call, over: &WindowType, scope: &Scope<'_>) -> Result<Bound, SqlError> {
        match scope.clause.get() {
            Clause::Select | Clause::Qualify | Clause::OrderBy => {}
            clause => return Err(SqlError::query(format!("Analytic function not allowed in {}", clause.name()))),
        }
        let clause = scope.clause.replace(Clause::Window);
        let bound = self.window_parts(name, call, over, scope);
        scope.clause.set(clause);
        let (function, kind, partition, order, frame) = bound?;
        let slot = scope.new_slot();
        scope.calls.borrow_mut().windows.push(Window { slot, function, partition, order, frame });
        Ok(Bound::new(Expr::Column { depth: 0, slot }, kind))
    }

    #[expect(clippy::type_complexity, reason = "the parts of a window, which only its caller puts together")]
    fn window_parts(
        &self,
        name: &str,
        call: &Call,
        over: &WindowType,
        scope: &Scope<'_>,
    ) -> Result<(WindowFunction, Type, Vec<Expr>, Vec<Order<Expr>>, Frame), SqlError> {
        let spec = match over {
            WindowType::WindowSpec(spec) => self.window_spec(spec)?,
            WindowType::NamedWindow(name) => self.named_window(name)?,
        };
        let partition = spec
            .partition_by
            .iter()
            .map(|by| self.expr(by, scope).map(|bound| bound.expr))
            .collect::<Result<_, _>>()?;
        let order = self.order(&spec.order_by, scope)?;
        let numbering = [
            "ROW_NUMBER",
            "RANK",
            "DENSE_RANK",
            "PERCENT_RANK",
            "CUME_DIST",
            "NTILE",
            "LAG",
            "LEAD",
            "PERCENTILE_CONT",
        ];
        if spec.window_frame.is_some() && numbering.contains(&name) {
            return Err(SqlError::query(format!("Window framing clause is not allowed for analytic function {name}")));
        }
        if order.is_empty()
            && ["RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"].contains(&name)
        {
            return Err(SqlError::query(format!(
                "Window ORDER BY is required for analytic function {}",
                name.to_lowercase()
            )));
        }
        let frame = self.frame(&spec, order.len(), scope)?;
        if aggregate::named(name).is_some() {
            let (aggregate, kind) = self.aggregate(name, call, scope)?;
            return Ok((WindowFunction::Aggregate(aggregate), kind, partition, order, frame));
        }
        let Some((known, takes)) = window::NAMED.iter().find(|(known, _)| *known == name) else {
            return match functions::signatures(name).is_empty() {
                true => Err(SqlError::query(format!("Function not found: {name}"))),
                false => Err(SqlError::query(format!("Function {name} does not support an OVER clause"))),
            };
        };
        let mut bounds = Vec::new();
        for argument in arguments(call)? {
            bounds.push(self.expr(argument, scope)?);
        }
        if !takes.contains(&bounds.len()) {
            return Err(no_signature(name, &[], &bounds));
        }
        let value = bounds.first().map(|bound| bound.kind.clone());
        let kind = match *known {
            "PERCENT_RANK" | "CUME_DIST" | "PERCENTILE_CONT" => Type::Float64,
            "LAG" | "LEAD" | "FIRST_VALUE" | "LAST_VALUE" | "NTH_VALUE" => value.unwrap_or(Type::Int64),
            _ => Type::Int64,
        };
        let wanted = |index: usize| match (*known, index) {
            ("LAG" | "LEAD", 1) | ("NTILE", 0) | ("NTH_VALUE", 1) => Some(Type::Int64),
            ("LAG" | "LEAD", 2) => Some(kind.clone()),
            ("PERCENTILE_CONT", _) => Some(Type::Float64),
            _ => None,
        };
        let mut exprs = Vec::new();
        for (index, bound) in bounds.iter().enumerate() {
            let expr = match wanted(index) {
                Some(kind) => self.coerce(bound.clone(), &kind)?.ok_or_else(|| no_signature(name, &[], &bounds))?,
                None => bound.expr.clone(),
            };
            exprs.push(expr);
        }
        let inside = match &call.args {
            FunctionArguments::List(list) => list.clauses.iter().any(|clause| {
                matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::IgnoreNulls))
            }),
            _ => false,
        };
        let ignore_nulls = inside || call.null_treatment == Some(NullTreatment::IgnoreNulls);
        Ok((WindowFunction::Named { name: known, arguments: exprs, ignore_nulls }, kind, partition, order, frame))
    }

    /// A window with what it takes from the window that it names.
    fn window_spec(&self, spec: &WindowSpec) -> Result<WindowSpec, SqlError> {
        let Some(name) = &spec.window_name else { return Ok(spec.clone()) };
        let mut whole = self.named_window(name)?;
        if !spec.partition_by.is_empty() {
            return Err(SqlError::query("PARTITION BY clause in OVER clause cannot be used with a named window"));
        }
        if !spec.order_by.is_empty() {
            whole.order_by.clone_from(&spec.order_by);
        }
        if spec.window_frame.is_some() {
            whole.window_frame.clone_from(&spec.window_frame);
        }
        Ok(whole)
    }

    fn named_window(&self, name: &Ident) -> Result<WindowSpec, SqlError> {
        let unknown = || SqlError::query(format!("Unrecognized window alias {}", name.value)).at(position(name.span));
        let spec = self.find_window(&name.value).ok_or_else(unknown)?;
        self.window_spec(&spec)
    }

    fn frame(&self, spec: &WindowSpec, keys: usize, scope: &Scope<'_>) -> Result<Frame, SqlError> {
        let Some(frame) = &spec.window_frame else {
            let end = if keys == 0 { FrameBound::Unbounded } else { FrameBound::Current };
            return Ok(Frame { range: true, start: FrameBound::Unbounded, end });
        };
        let range = match frame.units {
            WindowFrameUnits::Rows => false,
            WindowFrameUnits::Range => true,
            WindowFrameUnits::Groups => return Err(SqlError::unsupported("window frames of GROUPS")),
        };
        let bound = |bound: &WindowFrameBound| {
            Ok(match bound {
                WindowFrameBound::CurrentRow => FrameBound::Current,
                WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => FrameBound::Unbounded,
                WindowFrameBound::Preceding(Some(by)) => FrameBound::Preceding(self.expr(by, scope)?.expr),
                WindowFrameBound::Following(Some(by)) => FrameBound::Following(self.expr(by, scope)?.expr),
            })
        };
        let start = bound(&frame.start_bound)?;
        let end = frame.end_bound.as_ref().map_or(Ok(FrameBound::Current), bound)?;
        let measured = |bound: &FrameBound| matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_));
        if range && keys != 1 && (measured(&start) || measured(&end)) {
            return Err(SqlError::query(
                "RANGE-based window with OFFSET PRECEDING or OFFSET FOLLOWING must have exactly one ORDER BY key",
            ));
        }
        Ok(Frame { range, start, end })
    }
}

/// Functions that exist, but not here; those that end with a dot are groups.
const UNSUPPORTED: [&str; 60] = [
    "ML.",
    "AI.",
    "KEYS.",
    "HLL_COUNT.",
    "KLL_QUANTILES.",
    "NET.",
    "BIT_COUNT",
    "RAND",
    "GENERATE_UUID",
    "SESSION_USER",
    "ERROR",
    "FARM_FINGERPRINT",
    "MD5",
    "SHA1",
    "SOUNDEX",
    "TRANSLATE",
    "UNICODE",
    "NORMALIZE",
    "NORMALIZE_AND_CASEFOLD",
    "COLLATE",
    "EDIT_DISTANCE",
    "INSTR",
    "OCTET_LENGTH",
    "TO_CODE_POINTS",
    "CODE_POINTS_TO_STRING",
    "CODE_POINTS_TO_BYTES",
    "TO_BASE32",
    "FROM_BASE32",
    "SAFE_CONVERT_BYTES_TO_STRING",
    "APPROX_TOP_COUNT",
    "APPROX_TOP_SUM",
    "CORR",
    "COVAR_POP",
    "COVAR_SAMP",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "GROUPING",
    "PERCENTILE_DISC",
    "PARSE_NUMERIC",
    "PARSE_BIGNUMERIC",
    "ARRAY_IS_DISTINCT",
    "ARRAY",
    "MAKE_INTERVAL",
    "JUSTIFY_DAYS",
    "JUSTIFY_HOURS",
    "JUSTIFY_INTERVAL",
    "TIME_ADD",
    "TIME_SUB",
    "TIME_TRUNC",
    "RANGE",
    "GENERATE_RANGE_ARRAY",
    "RANGE_BUCKET",
    "SEARCH",
    "VECTOR_SEARCH",
    "EXTERNAL_QUERY",
    "JSON_SET",
    "JSON_KEYS",
    "IFERROR",
    "SIN",
];

fn plain(function: aggregate::Function) -> Aggregate {
    Aggregate {
        function,
        argument: None,
        kind: Type::Int64,
        distinct: false,
        ignore_nulls: false,
        order: Vec::new(),
        limit: None,
        having: None,
    }
}

fn chosen(signature: &Signature) -> Function {
    Function { name: signature.name, eval: signature.eval, nulls: signature.nulls }
}

/// A key of an order with its direction. Nulls are the smallest.
pub(super) fn directed<T>(by: T, key: &OrderByExpr) -> Order<T> {
    let descending = key.options.sort == Some(OrderBySort::Desc);
    Order { by, descending, nulls_first: key.options.nulls_first.unwrap_or(!descending) }
}

/// How far arguments are from a signature, and what `T` is.
fn fit(signature: &Signature, arguments: &[Bound]) -> Option<(u32, Option<Type>)> {
    let parameters = |index: usize| signature.parameter(index);
    let any: Vec<Bound> = arguments
        .iter()
        .enumerate()
        .filter_map(|(index, argument)| {
            let kind = parameters(index)?.infer(&argument.kind)?;
            Some(Bound { kind, ..argument.clone() })
        })
        .collect();
    // A null says nothing of the type, but fits.
    let any = if any.is_empty() { Some(Type::Int64) } else { Some(Binder::supertype(&any)?) };
    let mut total = 0;
    for (index, argument) in arguments.iter().enumerate() {
        let parameter = parameters(index)?;
        if parameter.is_part() {
            continue;
        }
        if parameter.is_any()
            && parameter.infer(&argument.kind).is_none()
            && !matches!(argument.origin, Origin::Untyped | Origin::Undeclared(_))
        {
            return None;
        }
        total += argument.distance(&parameter.kind(any.as_ref())?)?;
    }
    Some((total, any))
}

/// Google's error for arguments that no signature takes.
fn no_signature(name: &str, signatures: &[Signature], arguments: &[Bound]) -> SqlError {
    let sign = OPERATORS.iter().find(|(known, _)| *known == name).map(|(_, sign)| *sign);
    let what = sign.map_or_else(|| format!("function {name}"), |sign| format!("operator {sign}"));
    let kinds = arguments.iter().map(shown).collect::<Vec<_>>().join(", ");
    let mut message = format!("No matching signature for {what}\n  Argument types: {kinds}");
    for signature in signatures {
        let parameters: Vec<String> = signature.parameters.iter().map(functions::Parameter::to_string).collect();
        message += &match (sign, parameters.as_slice()) {
            (Some(sign), [left, right]) => format!("\n  Signature: {left} {sign} {right}"),
            _ => format!("\n  Signature: {}({})", sign.unwrap_or(name), parameters.join(", ")),
        };
        if !signature.takes(arguments.len()) {
            message += "\n    Signature does not accept that many arguments";
            continue;
        }
        let wrong = arguments.iter().enumerate().find_map(|(index, argument)| {
            let wanted = signature.parameter(index)?.kind(None)?;
            argument.distance(&wanted).is_none().then(|| (index + 1, shown(argument), wanted))
        });
        if let Some((index, found, wanted)) = wrong {
            message += &format!("\n    Argument {index}: Unable to coerce type {found} to expected type {wanted}");
        }
    }
    SqlError::query(message)
}

/// How operators are written.
const OPERATORS: [(&str, &str); 11] = [
    ("$add", "+"),
    ("$subtract", "-"),
    ("$multiply", "*"),
    ("$divide", "/"),
    ("$minus", "-"),
    ("$bitand", "&"),
    ("$bitor", "|"),
    ("$bitxor", "^"),
    ("$bitnot", "~"),
    ("$like", "LIKE"),
    ("$in_array", "IN UNNEST"),
];
