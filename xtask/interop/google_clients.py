"""Google's own Python clients and our connectors, asked the same questions of one sandbox: the values must be equal.

    google_clients.py URL CREDENTIALS PROGRAMS

CREDENTIALS is the file of a person's login, which Google's clients renew at the sandbox; with a service account they would
insist on an audience that the sandbox is not. PROGRAMS is the folder of the connectors. Each line that is printed was
checked. An API is one function; another one is another entry of `APIS`. Every tool and every block is asked once, so that what
the sandbox keeps of it, for google_contract.py, has every kind of request.
"""

import json
import socket
import sys
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from google.analytics.admin_v1beta import AnalyticsAdminServiceClient
from google.analytics.data_v1beta import BetaAnalyticsDataClient
from google.analytics.data_v1beta.types import MetricType, RunRealtimeReportRequest, RunReportRequest
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build

from connector import Connector, equal
from google_warehouse import warehouse

def search_console(google, facts, gsc):
    """searchconsole v1, by the discovery document that the client brings."""
    service = build("searchconsole", "v1", static_discovery=True, **google)
    shop, prefix, blog = "sc-domain:nordwind.example", "https://www.nordwind.example/", "https://www.nordwind.example/blog/"
    final = date.fromisoformat(facts["search_console"]["last_final"])
    metrics = ("clicks", "impressions", "ctr", "position")

    def ask(site, body):
        return service.searchanalytics().query(siteUrl=site, body=body).execute()

    def every_row(site, body):
        """All pages, to the empty one; a row that comes again is the same one."""
        rows, page = {}, {"rows": []}
        start = 0
        while "rows" in page:
            page = ask(site, body | {"rowLimit": 25_000, "startRow": start})
            start += len(page.get("rows", []))
            rows |= {tuple(row.get("keys", [])): figures(row) for row in page.get("rows", [])}
            if not body.get("dimensions"):
                break
        return rows, page["responseAggregationType"]

    def figures(row):
        """Counts are whole numbers written as fractions; Discover and Google News have no position."""
        return round(row["clicks"]), round(row["impressions"]), row["ctr"], row.get("position")

    def figures_of_ours(row):
        return tuple(row[name] for name in metrics)

    def window(days, last=final):
        return {"startDate": str(last - timedelta(days - 1)), "endDate": str(last)}

    def search(what, site, body, **more):
        """One question in Google's words, and the same one in ours."""
        theirs, counted = every_row(site, body)
        renamed = {"startDate": "start_date", "endDate": "end_date", "type": "search_type", "dataState": "data_state"}
        arguments = {renamed.get(name, name): value for name, value in body.items() if name != "dimensionFilterGroups"}
        for group in body.get("dimensionFilterGroups", []):
            arguments.setdefault("filters", []).extend(group["filters"])
        model, rows = gsc.call("search_analytics", resource_id=site, **arguments | more)
        names = body.get("dimensions", [])
        equal(what, {tuple(row[name] for name in names): figures_of_ours(row) for row in rows}, theirs)
        equal(f"{what}, rows", len(rows), len(theirs))
        equal(f"{what}, how impressions are counted", model["extra"]["aggregation"], counted)
        whole = {name: value for name, value in body.items() if name != "dimensions"}
        if whole.get("dataState") == "hourly_all":
            whole["dataState"] = "all"
        totals = ask(site, whole | {"aggregationType": counted})["rows"][0]
        equal(f"{what}, totals", figures_of_ours(model["totals"]), figures(totals))
        return model, rows

    def filtered(dimension, operator, expression):
        return {"dimensionFilterGroups": [{"filters": [
            {"dimension": dimension, "operator": operator, "expression": expression}]}]}

    today = date.fromisoformat(facts["search_console"]["today"])
    questions = [
        ("no dimensions", shop, window(28)),
        ("by query", shop, window(28) | {"dimensions": ["query"]}),
        ("by day and device", prefix, window(40) | {"dimensions": ["date", "device"]}),
        ("by page and country", blog, window(28) | {"dimensions": ["page", "country"]}),
        ("by all that can be together", shop, window(3) | {"dimensions": ["date", "query", "page", "country", "device"]}),
        ("searches of some pages", shop, window(28) | {"dimensions": ["query"]} | filtered("page", "contains", "/blog/")),
        ("searches by a pattern", shop, window(28) | {"dimensions": ["query"]} | filtered("query", "includingRegex", "oak|table")),
        ("pages without a country", shop, window(28) | {"dimensions": ["page"]} | filtered("country", "notEquals", "deu")),
        ("appearances", shop, window(28) | {"dimensions": ["searchAppearance"]}),
        ("images", shop, window(28) | {"dimensions": ["page"], "type": "image"}),
        ("Discover", shop, window(28) | {"dimensions": ["page"], "type": "discover"}),
        ("news by day", shop, window(28) | {"dimensions": ["date"], "type": "googleNews"}),
        ("hours", shop, window(3, today) | {"dimensions": ["hour"], "dataState": "hourly_all"}),
        ("rows of a large property", "sc-domain:bulk.example", window(1) | {"dimensions": ["query", "page"]}),
    ]
    counted = sum(len(search(*question)[1]) for question in questions)
    yield f"search_analytics has the rows and totals of searchanalytics.query: {len(questions)} questions, {counted} rows"

    body = window(10, today) | {"dimensions": ["date"], "dataState": "all"}
    model, rows = search("fresh days", shop, body)
    first = ask(shop, body)["metadata"]["firstIncompleteDate"]
    equal("the first incomplete day", model["extra"]["first_incomplete"], first)
    fresh = {row["date"]: row["is_incomplete"] for row in rows}
    equal("incomplete days", fresh, {day: day >= first for day in fresh})
    yield "is_incomplete begins where Google's metadata say"

    merged = {}
    for day in range(5):
        rows, _ = every_row(shop, window(1, final - timedelta(day)) | {"dimensions": ["query", "page"]})
        for key, (clicks, impressions, _, position) in rows.items():
            sums = merged.get(key, (0, 0, 0))
            merged[key] = (sums[0] + clicks, sums[1] + impressions, sums[2] + position * impressions)
    _, rows = gsc.call("search_analytics", resource_id=shop, dimensions=["query", "page"], walk_days="always",
                       start_date=window(5)["startDate"], end_date=window(5)["endDate"])
    equal("days by themselves", {(row["query"], row["page"]): (row["clicks"], row["impressions"]) for row in rows},
          {key: sums[:2] for key, sums in merged.items()})
    for row in rows:
        clicks, impressions, weighted = merged[row["query"], row["page"]]
        # Sums of fractions depend on their order in the last digits.
        off = max(abs(row["position"] - weighted / impressions), abs(row["ctr"] - clicks / impressions))
        equal("ctr and position of merged days", off < 1e-9, True)
    yield f"walk_days has the sums of five questions about a day: {len(rows)} rows"

    theirs = service.sites().list().execute()["siteEntry"]
    readable = [site["siteUrl"] for site in theirs if site["permissionLevel"] != "siteUnverifiedUser"]
    ours, _ = gsc.call("autocontext")
    equal("properties", ours["total_available"], len(theirs))
    listed = {site["resource_id"] for site in ours["resources"]}
    equal("properties that are none", listed - {site["siteUrl"] for site in theirs}, set())
    equal("properties that are left out", len(listed), min(25, len(readable)))
    yield f"autocontext counts the properties of sites.list: {len(theirs)}"

    theirs = service.sitemaps().list(siteUrl=prefix).execute()["sitemap"]
    _, rows = gsc.call("list_sitemaps", resource_id=prefix)
    columns = {"path": "path", "type": "type", "is_index": "isSitemapsIndex", "is_pending": "isPending",
               "last_submitted": "lastSubmitted", "last_downloaded": "lastDownloaded", "errors": "errors", "warnings": "warnings"}
    number = lambda value: int(value) if isinstance(value, str) and value.isdigit() else value
    equal("sitemaps", {row["path"]: [row[ours] for ours in columns] for row in rows},
          {map_["path"]: [number(map_.get(name)) for name in columns.values()] for map_ in theirs})
    yield f"list_sitemaps has what sitemaps.list has: {len(rows)} sitemaps"

    pages = [prefix, f"{prefix}old/chair", f"{prefix}private/x", f"{prefix}nobody-knows-it"]
    _, rows = gsc.call("inspect_urls", resource_id=prefix, urls=pages)
    columns = {"verdict": "verdict", "coverage_state": "coverageState", "robots_txt_state": "robotsTxtState",
               "indexing_state": "indexingState", "page_fetch_state": "pageFetchState", "last_crawl_time": "lastCrawlTime",
               "crawled_as": "crawledAs", "google_canonical": "googleCanonical", "user_canonical": "userCanonical",
               "sitemaps": "sitemap", "referring_urls": "referringUrls"}
    def inspected(page):
        answer = service.urlInspection().index().inspect(
            body={"inspectionUrl": page, "siteUrl": prefix, "languageCode": "en-US"}).execute()
        return [answer["inspectionResult"]["indexStatusResult"].get(name) for name in columns.values()]
    equal("inspections", {row["url"]: [row[name] for name in columns] for row in rows},
          {page: inspected(page) for page in pages})
    yield f"inspect_urls has what index.inspect has: {len(rows)} addresses"

    # What has no single question of Google's beside it.
    gsc.call("compare_periods", resource_id=shop, dimensions=["query"])
    gsc.call("search_analytics_by_regex_cluster", resource_id=shop, brand="nordwind")
    gsc.call("query_page_overlap", resource_id=shop)
    gsc.call("list_sitemaps", resource_id=prefix, sitemap_index=f"{prefix}sitemap_index.xml")
    blocks = gsc.blocks(shop)
    types = {entry["search_type"]: (entry["clicks"], entry["impressions"]) for entry in blocks["search_types_with_data"]}
    theirs = {name: figures(ask(shop, window(28) | {"type": name})["rows"][0])[:2] for name in types}
    equal("search types", types, theirs)
    yield f"search_types_with_data has Google's figures; {len(blocks)} blocks were asked for"


def analytics(google, facts, ga4):
    """analyticsdata and analyticsadmin, by the clients that Google generates for them, over REST."""
    options = {"credentials": google["credentials"], "transport": "rest", "client_options": google["client_options"]}
    data, admin = BetaAnalyticsDataClient(**options), AnalyticsAdminServiceClient(**options)
    properties = {entry["kind"]: entry for entry in facts["properties"]}
    main = properties["main"]

    def value(kind, text):
        return int(text) if kind in (MetricType.TYPE_INTEGER, MetricType.TYPE_MINUTES) and "." not in text else float(text)

    def report(what, kind, **request):
        """One report in Google's words, and the same one in ours."""
        entry = properties[kind]
        days = request.pop("days", 28)
        last = date.fromisoformat(entry["today"]) - timedelta(1)
        start, end = str(last - timedelta(days - 1)), str(last)
        arguments = request.pop("ours", {})
        limit = arguments.get("limit")
        theirs, totals, offset, count = {}, None, 0, 1
        while offset < count:
            page = data.run_report(RunReportRequest(
                property=f"properties/{entry['id']}", date_ranges=[{"start_date": start, "end_date": end}], offset=offset,
                limit=limit or 250_000, dimensions=[{"name": name} for name in request["dimensions"]],
                metrics=[{"name": name} for name in request["metrics"]], metric_aggregations=["TOTAL"],
                **{name: value for name, value in request.items() if name not in ("dimensions", "metrics")}))
            kinds = [header.type_ for header in page.metric_headers]
            numbers = lambda row: [value(kind, cell.value) for kind, cell in zip(kinds, row.metric_values)]
            theirs |= {tuple(cell.value for cell in row.dimension_values): numbers(row) for row in page.rows}
            totals = totals or [numbers(row) for row in page.totals]
            offset, count = offset + len(page.rows), min(page.row_count, limit or page.row_count)
        model, rows = ga4.call("run_report", resource_id=entry["id"], start_date=start, end_date=end,
                               dimensions=request["dimensions"], metrics=request["metrics"], split="never", **arguments)
        # Days are dates with hyphens in our table.
        plain = lambda name, cell: cell.replace("-", "") if name == "date" else cell
        key = lambda row: tuple(plain(name, row[name]) for name in request["dimensions"])
        equal(what, {key(row): [row[name] for name in request["metrics"]] for row in rows}, theirs)
        equal(f"{what}, rows", len(rows), len(theirs))
        if totals:
            equal(f"{what}, totals", [model["totals"][name] for name in request["metrics"]], totals[0])
        return len(rows)

    german = {"filter": {"field_name": "country", "string_filter": {"match_type": "EXACT", "value": "Germany"}}}
    many = {"filter": {"field_name": "sessions", "numeric_filter": {"operation": "GREATER_THAN", "value": {"int64_value": 20}}}}
    counts = [
        report("no dimensions", "main", dimensions=[], metrics=["sessions", "totalUsers", "totalRevenue"]),
        report("by day and country", "main", dimensions=["date", "country"], metrics=["sessions", "totalUsers", "newUsers"]),
        report("rates and money", "main", dimensions=["sessionDefaultChannelGroup"], days=60,
               metrics=["sessions", "engagementRate", "bounceRate", "averageSessionDuration", "totalRevenue"]),
        report("one country", "main", dimensions=["date"], metrics=["sessions"], dimension_filter=german,
               ours={"dimension_filters": [{"field": "country", "match_type": "EXACT", "value": "Germany"}]}),
        report("many sessions", "main", dimensions=["date", "country"], metrics=["sessions"], metric_filter=many,
               ours={"metric_filters": [{"field": "sessions", "match_type": "GREATER_THAN", "value": 20}]}),
        report("the first pages", "main", dimensions=["pagePath"], metrics=["screenPageViews"],
               order_bys=[{"metric": {"metric_name": "screenPageViews"}, "desc": True},
                          {"dimension": {"dimension_name": "pagePath"}}],
               ours={"limit": 10, "order_by": [{"field": "screenPageViews", "desc": True}, {"field": "pagePath"}]}),
        report("thresholds", "thresholded", dimensions=["country"], metrics=["sessions"]),
        report("samples", "sampled", dimensions=["country"], metrics=["sessions"]),
        report("other", "high_cardinality", dimensions=["pagePath"], metrics=["screenPageViews"]),
        report("no data", "empty", dimensions=["country"], metrics=["sessions"]),
        report("pages of rows", "bulk", dimensions=["customEvent:item_id"], metrics=["eventCount"], days=12,
               order_bys=[{"dimension": {"dimension_name": "customEvent:item_id"}}]),
    ]
    yield f"run_report has the rows and totals of google-analytics-data: {len(counts)} reports, {sum(counts)} rows"

    live = data.run_realtime_report(RunRealtimeReportRequest(
        property=f"properties/{main['id']}", dimensions=[{"name": "country"}], metrics=[{"name": "activeUsers"}]))
    _, rows = ga4.call("run_realtime_report", resource_id=main["id"], dimensions=["country"], metrics=["activeUsers"])
    equal("realtime", {row["country"]: row["activeUsers"] for row in rows},
          {row.dimension_values[0].value: int(row.metric_values[0].value) for row in live.rows})
    yield f"run_realtime_report has the rows of google-analytics-data: {len(rows)}"

    # What has no single question of Google's beside it.
    pages = [{"name": "products", "pattern": "^/products/"}]
    for mode, metrics in (("rows", ["screenPageViews"]), ("exact", ["totalUsers"])):
        ga4.call("run_report_by_regex_cluster", resource_id=main["id"], dimension="pagePath", clusters=pages,
                 metrics=metrics, mode=mode)
    ga4.call("compare_conversion_models", resource_id=main["id"])
    ga4.call("run_funnel_report", resource_id=main["id"], steps=[{"event": "first_visit"}, {"event": "purchase"}])
    ga4.call("validate_report", resource_id=main["id"], arguments={"metrics": ["sessions"], "dimensions": ["country"]})

    theirs = [entry.property.split("/")[1] for account in admin.list_account_summaries()
              for entry in account.property_summaries]
    ours, _ = ga4.call("autocontext")
    equal("properties", ours["total_available"], len(theirs))
    equal("properties that are none", {entry["resource_id"] for entry in ours["resources"]} - set(theirs), set())
    yield f"autocontext counts the properties of google-analytics-admin: {len(theirs)}"

    blocks = ga4.blocks(main["id"])
    parent = f"properties/{main['id']}"
    settings = admin.get_property(name=parent)
    equal("settings", [blocks["property_settings"][name] for name in ("name", "time_zone", "currency", "industry")],
          [settings.display_name, settings.time_zone, settings.currency_code, settings.industry_category.name])
    scope = {"EVENT": "customEvent", "USER": "customUser", "ITEM": "customItem"}
    equal("key events", [event["event_name"] for event in blocks["key_events"]],
          [event.event_name for event in admin.list_key_events(parent=parent)])
    equal("custom dimensions", {entry["api_name"] for entry in blocks["custom_dimensions"]},
          {f"{scope[entry.scope.name]}:{entry.parameter_name}" for entry in admin.list_custom_dimensions(parent=parent)})
    yield f"settings, key events and custom dimensions are Google's; {len(blocks)} blocks were asked for"


# Which connector an API has, what is compared, and what a person has set for the connector.
SETTINGS = {"config": {"allow_preview": True, "access_mode": "readAndOnlyAdd"}, "cost_limit_usd": 1, "fractions": Decimal}
APIS = {"gsc": (search_console, {}), "ga4": (analytics, {}), "bigquery": (warehouse, SETTINGS)}


def main():
    url, login, programs = sys.argv[1:]
    # Google's clients try a refused connection for ever.
    address = urlsplit(url)
    socket.create_connection((address.hostname, address.port), timeout=10).close()
    login = json.loads(Path(login).read_text())
    person = Credentials(None, refresh_token=login["refresh_token"], token_uri=f"{url}/token",
                         client_id=login["client_id"], client_secret=login["client_secret"])
    google = {"credentials": person, "client_options": {"api_endpoint": url}}
    with urlopen(f"{url}/__sandbox/facts") as answer:
        facts = json.load(answer)
    urlopen(Request(f"{url}/__sandbox/exchanges", method="POST")).close()
    for program, (compare, settings) in APIS.items():
        for shown in compare(google, facts, Connector(Path(programs) / program, url, login, **settings)):
            print(f"{program}: {shown}", flush=True)


if __name__ == "__main__":
    main()
