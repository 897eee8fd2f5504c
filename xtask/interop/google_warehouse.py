"""BigQuery by google-cloud-bigquery and by our connector: the same rows, bytes and tables, to the last digit."""

import json
import math
import re
from base64 import b64decode
from datetime import date, datetime, time
from decimal import Decimal
from urllib.request import Request, urlopen

from dateutil.relativedelta import relativedelta
from google.cloud import bigquery

from connector import equal

PROJECT = "acp-sandbox"
WAREHOUSE = f"{PROJECT}.warehouse"


def of_ours(field, value):
    """A value of our table as Google's client gives it, by the field of the schema that Google's client has."""
    if field.mode == "REPEATED":
        return [one_of_ours(field, element) for element in value]
    return one_of_ours(field, value)


def one_of_ours(field, value):
    if value is None:
        return None
    kind = field.field_type
    if kind in ("RECORD", "STRUCT"):
        equal(f"fields of {field.name}", list(value), [inner.name for inner in field.fields])
        return {inner.name: of_ours(inner, value[inner.name]) for inner in field.fields}
    if kind == "RANGE":
        element = bigquery.SchemaField(field.name, field.range_element_type.element_type)
        return {bound: one_of_ours(element, value[bound]) for bound in ("start", "end")}
    return READERS[kind](value)


def whole(value):
    if not isinstance(value, int):
        raise SystemExit(f"{value!r} is no whole number")
    return value


def moment(value):
    return datetime.fromisoformat(value.replace("Z", "+00:00"))


def interval(value):
    parts = re.fullmatch(r"(-?)(\d+)-(\d+) (-?\d+) (-?)(\d+):(\d+):(\d+)(?:\.(\d{1,6}))?", value)
    months, clock = -1 if parts[1] else 1, -1 if parts[5] else 1
    return relativedelta(
        years=months * int(parts[2]), months=months * int(parts[3]), days=int(parts[4]), hours=clock * int(parts[6]),
        minutes=clock * int(parts[7]), seconds=clock * int(parts[8]), microseconds=clock * int((parts[9] or "").ljust(6, "0")))


def floats(value):
    """JSON as Python reads it: numbers with a fraction are floats."""
    if isinstance(value, dict):
        return {name: floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [floats(inner) for inner in value]
    return float(value) if isinstance(value, Decimal) else value


READERS = {
    "STRING": str, "GEOGRAPHY": str, "INTEGER": whole, "FLOAT": float, "NUMERIC": Decimal, "BIGNUMERIC": Decimal,
    "BOOLEAN": bool, "BYTES": b64decode, "DATE": date.fromisoformat, "DATETIME": datetime.fromisoformat, "TIMESTAMP": moment,
    "TIME": time.fromisoformat, "INTERVAL": interval, "JSON": floats,
}


def of_theirs(field, value, top=True):
    """A value of Google's client without what our table can't hold, of which its warnings tell: what is no number, and a
    column of type JSON whose value is neither an object nor a list."""
    if field.mode == "REPEATED":
        element = bigquery.SchemaField(field.name, field.field_type, fields=field.fields)
        return [of_theirs(element, inner, False) for inner in value]
    if value is None:
        return None
    if field.field_type in ("RECORD", "STRUCT"):
        return {inner.name: of_theirs(inner, value[inner.name], False) for inner in field.fields}
    if field.field_type == "FLOAT" and not math.isfinite(value):
        return None
    if field.field_type == "JSON" and top and not isinstance(value, (dict, list)):
        return None
    return value


def same_rows(what, schema, ours, theirs):
    """Rows of our table and of Google's client, in their order. How many columns and rows there are."""
    theirs = list(theirs)
    equal(f"{what}, rows", len(ours), len(theirs))
    for number, (mine, other) in enumerate(zip(ours, theirs)):
        equal(f"{what}, columns", list(mine), [field.name for field in schema])
        for field in schema:
            place = f"{what}, row {number}, {field.name}"
            equal(place, of_ours(field, mine[field.name]), of_theirs(field, other[field.name]))
    return len(theirs)


def parameter(name, value):
    """One of our parameters as Google's client wants it."""
    if isinstance(value, dict) and set(value) == {"type", "value"}:
        kind, value = value["type"], value["value"]
    else:
        first = value[0] if isinstance(value, list) else value
        kind = {bool: "BOOL", int: "INT64", float: "FLOAT64", str: "STRING", dict: "STRUCT"}[type(first)]
    if isinstance(value, list):
        return bigquery.ArrayQueryParameter(name, kind, value)
    if kind == "STRUCT":
        return bigquery.StructQueryParameter(name, *(parameter(inner, field) for inner, field in value.items()))
    return bigquery.ScalarQueryParameter(name, kind, value)


def warehouse(google, facts, connector):
    """bigquery v2, by the client that Google writes for it."""
    client = bigquery.Client(PROJECT, **google)
    sandbox = google["client_options"]["api_endpoint"]
    facts = facts["bigquery"]
    export, searches = facts["ga4_export"], facts["search_console_export"]
    analytics, search = f"{PROJECT}.{export['dataset']}", f"{PROJECT}.{searches['dataset']}"
    day = export["last"].replace("-", "")
    week = f"_TABLE_SUFFIX BETWEEN '{(date.fromisoformat(export['last'])).replace(day=1):%Y%m%d}' AND '{day}'"

    def job(sql, params=None, **options):
        dataset = options.pop("dataset", WAREHOUSE)
        typed = [parameter(name, value) for name, value in (params or {}).items()]
        config = bigquery.QueryJobConfig(default_dataset=dataset, query_parameters=typed, **options)
        return client.query(sql, config)

    def query(what, dataset, sql, params=None):
        """One question to both."""
        theirs = job(sql, params, dataset=dataset).result()
        arguments = {"params": params} if params else {}
        _, rows = connector.call("execute_query", resource_id=dataset, query=sql, **arguments)
        return same_rows(what, theirs.schema, rows, theirs)

    rows = query("every type", WAREHOUSE, "SELECT * FROM every_type ORDER BY id")
    columns = len(client.get_table(f"{WAREHOUSE}.every_type").schema)
    yield f"every type in every mode is the same in both: {columns} columns, {rows} rows"

    questions = [
        ("names that need quotes", WAREHOUSE, "SELECT * FROM flexible_names"),
        ("a wide table", WAREHOUSE, "SELECT * FROM wide ORDER BY id"),
        ("no rows", WAREHOUSE, "SELECT * FROM empty_table"),
        ("a day of events", analytics, f"SELECT * FROM events_{day} ORDER BY event_timestamp, event_name, user_pseudo_id LIMIT 300"),
        ("events by day", analytics,
         f"SELECT event_date, event_name, COUNT(*) AS events, COUNT(DISTINCT user_pseudo_id) AS users FROM `events_*` WHERE {week} "
         "GROUP BY 1, 2 ORDER BY 1, 2"),
        ("pages of sessions", analytics,
         "SELECT (SELECT value.string_value FROM UNNEST(event_params) WHERE key = 'page_location') AS page, COUNT(DISTINCT CONCAT("
         "user_pseudo_id, CAST((SELECT value.int_value FROM UNNEST(event_params) WHERE key = 'ga_session_id') AS STRING))) AS sessions "
         f"FROM `events_*` WHERE {week} GROUP BY page ORDER BY page"),
        ("revenue", analytics,
         f"SELECT item.item_name, SUM(item.item_revenue) AS revenue FROM `events_*`, UNNEST(items) AS item WHERE {week} GROUP BY 1 ORDER BY 1"),
        ("searches", search,
         "SELECT data_date, query, SUM(clicks) AS clicks, SUM(impressions) AS impressions, "
         "SUM(sum_top_position) / SUM(impressions) + 1 AS position FROM searchdata_site_impression "
         f"WHERE data_date >= DATE '{searches['last']}' GROUP BY 1, 2 ORDER BY 1, 2"),
        ("all columns of searches", search,
         f"SELECT * FROM searchdata_url_impression WHERE data_date = DATE '{searches['last']}' ORDER BY url, query, country, device LIMIT 500"),
        ("the log of exports", search, "SELECT * FROM ExportLog ORDER BY publish_time, namespace LIMIT 100"),
    ]
    counted = sum(query(*question) for question in questions)
    yield f"execute_query has the rows of google-cloud-bigquery: {len(questions)} queries of exports and tables, {counted} rows"

    params = {
        "text": "Föhr \"椅子\" 🪑\n", "number": 9007199254740993, "fraction": 0.1, "truth": True, "words": ["a", "", "ü"],
        "numbers": [1, -2], "day": {"type": "DATE", "value": "2026-09-01"}, "money": {"type": "NUMERIC", "value": "0.10"},
        "big": {"type": "BIGNUMERIC", "value": "0.00000000000000000000000000000000000001"},
        "moment": {"type": "TIMESTAMP", "value": "2026-09-01T12:00:00.000001+00:00"}, "record": {"a": 1, "b": "x"},
    }
    sql = "SELECT " + ", ".join(f"@{name} AS {name}" for name in params)
    query("parameters", WAREHOUSE, sql, params)
    rows = query("parameters in conditions", WAREHOUSE,
                 "SELECT id, sku FROM bulk_100k WHERE category IN UNNEST(@words) AND quantity > @number AND day = @day ORDER BY id",
                 {"words": ["lamp", "sofa"], "number": 5, "day": {"type": "DATE", "value": "2026-01-02"}})
    equal("parameters find rows", rows > 100, True)
    yield f"parameters of {len(params)} kinds arrive as they were given, and find the same {rows} rows"

    def control(body):
        method = "POST" if body else "DELETE"
        urlopen(Request(f"{sandbox}/__sandbox/bigquery", data=json.dumps(body).encode() if body else None, method=method)).close()

    control({"page_bytes": 500_000})
    sql = "SELECT * FROM bulk_100k WHERE id < 20000 ORDER BY id"
    pages = job(sql).result(page_size=3_000).pages
    theirs = [list(page) for page in pages]
    _, rows = connector.call("execute_query", resource_id=WAREHOUSE, query=sql)
    schema = client.get_table(f"{WAREHOUSE}.bulk_100k").schema
    same_rows("pages", schema, rows, [row for page in theirs for row in page])
    control(None)
    with urlopen(f"{sandbox}/__sandbox/exchanges") as answer:
        exchanges = json.load(answer)["exchanges"]
    ours = [exchange for exchange in exchanges
            if exchange["user_agent"].startswith("acp-connectors/") and "pageToken=" in exchange["query"] and "/queries/" in exchange["path"]]
    equal("several pages for each", len(theirs) > 3 and len(ours) > 3, True)
    yield f"{len(rows)} rows of ten columns are the same, {len(theirs)} pages there and {len(ours) + 1} here"

    for table, most in (("every_type", 8), ("bulk_1m", 1_000), ("wide", 3)):
        theirs = client.list_rows(f"{WAREHOUSE}.{table}", max_results=most)
        _, rows = connector.call("preview_table", resource_id=WAREHOUSE, table=table, limit=most)
        same_rows(f"preview of {table}", theirs.schema, rows, theirs)
    yield "preview_table has the rows of list_rows: every type, many rows, many columns"

    dry = [(WAREHOUSE, "SELECT * FROM bulk_1m"), (WAREHOUSE, "SELECT sku FROM bulk"), (WAREHOUSE, "SELECT 1 AS one"),
           *((dataset, sql) for what, dataset, sql in questions)]
    for dataset, sql in dry:
        theirs = job(sql, dataset=dataset, dry_run=True, use_query_cache=False)
        model, _ = connector.call("validate_query", resource_id=dataset, query=sql)
        equal(f"bytes of {sql}", model["total_bytes_processed"], theirs.total_bytes_processed)
        equal(f"tables of {sql}", sorted(model["referenced_tables"]),
              sorted(f"{table.project}.{table.dataset_id}.{table.table_id}" for table in theirs.referenced_tables))
        equal(f"columns of {sql}", [column["name"] for column in model["result_schema"]], [field.name for field in theirs.schema])
    yield f"validate_query has the bytes, tables and columns of dry runs: {len(dry)} queries"

    columns = [("day", "date", "DATE"), ("big", "integer", "INT64"), ("price", "number", "FLOAT64"), ("open", "boolean", "BOOL"),
               ("at", "datetime", "TIMESTAMP"), ("name", "string", "STRING")]
    table = [{"day": f"2026-09-{number % 28 + 1:02}", "big": 9007199254740993 + number, "price": number / 8, "open": number % 3 == 0,
              "at": f"2026-09-01T10:{number % 60:02}:00.000001Z", "name": None if number % 7 == 0 else f"Föhr \"{number}\" \\ 🪑\n"}
             for number in range(700)]
    connector.tables["orders"] = {
        "format": "inline", "row_count": len(table), "table": table,
        "headers": [{"name": name, "type": kind} for name, kind, _ in columns]}
    connector.call("load_rows", table_ref="orders", destination=f"{PROJECT}.loads.by_ours")
    schema = [bigquery.SchemaField(name, kind) for name, _, kind in columns]
    # BigQuery rounds a number in JSON beyond 2^53, as its documentation says; a text keeps its digits. Ours sends texts.
    texts = [row | {"big": str(row["big"])} for row in table]
    load = bigquery.LoadJobConfig(schema=schema)
    client.load_table_from_json(texts, f"{PROJECT}.loads.by_google", job_config=load).result()
    read = {}
    for name in ("by_ours", "by_google"):
        sql = f"SELECT * FROM {name} ORDER BY big"
        equal(f"rows of {name}", query(f"the table {name}", f"{PROJECT}.loads", sql), len(table))
        read[name] = dict(enumerate(connector.call("execute_query", resource_id=f"{PROJECT}.loads", query=sql)[1]))
    equal("rows of both loads", read["by_ours"], read["by_google"])
    types = [[(field.name, field.field_type) for field in client.get_table(f"{PROJECT}.loads.{name}").schema] for name in read]
    equal("the types of both loads", *types)
    yield f"load_rows and load_table_from_json make the same table: {len(table)} rows, read back by both"

    theirs = job("SELECT * FROM every_type ORDER BY id DESC")
    rows = theirs.result()
    _, again = connector.call("get_job", resource_id=WAREHOUSE, job_id=f"{PROJECT}:{theirs.location}.{theirs.job_id}")
    same_rows("a job of Google's client", rows.schema, again, rows)
    yield "get_job reads the rows of a job that Google's client ran"

    ours, _ = connector.call("autocontext")
    listed = {entry["resource_id"] for entry in ours["resources"]}
    equal("projects", {project.project_id for project in client.list_projects()} - listed, set())
    theirs = [(dataset.dataset_id, client.get_dataset(dataset.reference).location) for dataset in client.list_datasets()]
    blocks = connector.blocks(PROJECT, "datasets")
    equal("datasets", sorted((entry["dataset"], entry["location"]) for entry in blocks["datasets"]),
          sorted((f"{PROJECT}.{name}", location) for name, location in theirs))
    theirs = client.get_table(f"{WAREHOUSE}.orders")
    ours, _ = connector.call("describe_table", resource_id=WAREHOUSE, table="orders")
    equal("a table", (ours["rows"], ours["bytes"], ours["location"]), (theirs.num_rows, theirs.num_bytes, theirs.location))
    about_tables = ("tables", "table_schemas", "table_stats", "partitioning", "views")
    blocks |= connector.blocks(WAREHOUSE, *about_tables) | connector.blocks(analytics, *about_tables, "ga4_export")
    blocks |= connector.blocks(search, *about_tables, "gsc_export") | connector.blocks(PROJECT, "access")
    yield f"autocontext has the projects and datasets and describe_table the size that Google's client has; {len(blocks)} blocks were asked for"
