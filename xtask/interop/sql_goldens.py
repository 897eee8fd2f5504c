"""Asks Google's own SQL engine: reads a JSON array of statements, writes an array of its answers in the same order.

An answer is {"columns": [[name, type], ...], "rows": [...]} or {"error": text}. Values are JSON; numbers, dates and times are
texts, so that every digit is kept. Timestamps have no form: the package drops them.
"""

import datetime
import json
import sys

from zetasql.api import CatalogBuilder, PreparedQuery
from zetasql.types import AnalyzerOptions, LanguageOptions, ProductMode, ZetaSQLBuiltinFunctionOptions

EPOCH = datetime.datetime(1970, 1, 1)
LANGUAGE = LanguageOptions.maximum_features()
LANGUAGE.product_mode = ProductMode.PRODUCT_EXTERNAL
OPTIONS = AnalyzerOptions(language_options=LANGUAGE, default_timezone="UTC")
FUNCTIONS = ZetaSQLBuiltinFunctionOptions(language_options=LANGUAGE)


def type_name(kind):
    if kind.array_type is not None:
        return f"ARRAY<{type_name(kind.array_type.element_type)}>"
    if kind.struct_type is not None:
        fields = [f"{field.field_name} {type_name(field.field_type)}".strip() for field in kind.struct_type.field]
        return f"STRUCT<{', '.join(fields)}>"
    name = kind.type_kind.name.removeprefix("TYPE_")
    return "FLOAT64" if name == "DOUBLE" else name


def decimal(data, scale):
    number = int.from_bytes(data, "little", signed=True)
    sign, digits = "-" if number < 0 else "", str(abs(number)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}".rstrip("0").rstrip(".")


def floating(number):
    if number != number:
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(number) or repr(number)


def fraction(nanos):
    return f".{nanos // 1000:06}" if nanos else ""


def packed_time(bits):
    return f"{bits >> 12 & 31:02}:{bits >> 6 & 63:02}:{bits & 63:02}"


def plain(value, kind):
    if kind.array_type is not None:
        # A null array and one without elements are the same to BigQuery's callers, and to the package.
        if value.array_value is None:
            return []
        return [plain(element, kind.array_type.element_type) for element in value.array_value.element or []]
    if kind.struct_type is not None:
        if value.struct_value is None:
            return None
        pairs = zip(value.struct_value.field or [], kind.struct_type.field)
        return [plain(field, of.field_type) for field, of in pairs]
    kind = kind.type_kind.name.removeprefix("TYPE_")
    if kind == "BOOL":
        return value.bool_value
    if kind == "INT64":
        return None if value.int64_value is None else str(value.int64_value)
    if kind == "DOUBLE":
        return None if value.double_value is None else floating(value.double_value)
    if kind == "STRING":
        return value.string_value
    if kind == "JSON":
        return value.json_value
    if kind == "BYTES":
        return None if value.bytes_value is None else value.bytes_value.hex()
    if kind == "NUMERIC":
        return None if value.numeric_value is None else decimal(value.numeric_value, 9)
    if kind == "BIGNUMERIC":
        return None if value.bignumeric_value is None else decimal(value.bignumeric_value, 38)
    if kind == "DATE":
        days = value.date_value
        return None if days is None else (EPOCH + datetime.timedelta(days=days)).date().isoformat()
    if kind == "DATETIME":
        time = value.datetime_value
        if time is None:
            return None
        bits = time.bit_field_datetime_seconds
        date = f"{bits >> 26:04}-{bits >> 22 & 15:02}-{bits >> 17 & 31:02}"
        return f"{date}T{packed_time(bits)}{fraction(time.nanos or 0)}"
    if kind == "TIME":
        bits = value.time_value
        return None if bits is None else packed_time(bits >> 30) + fraction(bits & (1 << 30) - 1)
    raise TypeError(f"no form for {kind}: cast it to STRING")


def answer(sql):
    try:
        builder = PreparedQuery.builder().set_sql(sql).set_analyzer_options(OPTIONS)
        with builder.set_catalog(CatalogBuilder("goldens").with_builtin_functions(FUNCTIONS).build()).prepare() as query:
            kinds = [column.type for column in query.columns]
            table = query.execute().content.table_data
            rows = (table.row if table is not None else None) or []
            return {
                "columns": [[column.name, type_name(column.type)] for column in query.columns],
                "rows": [[plain(cell, kind) for cell, kind in zip(row.cell, kinds)] for row in rows],
            }
    except TypeError as error:
        raise SystemExit(f"{sql}: {error}") from error
    except Exception as error:
        return {"error": str(error)}


if __name__ == "__main__":
    json.dump([answer(sql) for sql in json.load(sys.stdin)], sys.stdout)
