"""Google's own Python clients and our connectors, asked the same questions of one sandbox: the values must be equal.

    google_clients.py URL CREDENTIALS PROGRAMS

CREDENTIALS is the file of a person's login, which Google's clients renew at the sandbox; with a service account they would
insist on an audience that the sandbox is not. PROGRAMS is the folder of the connectors. Each line that is printed was
checked. An API is one function; another one is another entry of `APIS`. Every tool and every block is asked once, so that what
the sandbox keeps of it, for google_contract.py, has every kind of request.
"""

import json
import re
import socket
import sys
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from google.analytics import admin_v1alpha, data_v1alpha
from google.analytics.admin_v1beta import AnalyticsAdminServiceClient
from google.analytics.data_v1beta import BetaAnalyticsDataClient
from google.analytics.data_v1beta.types import (
    CheckCompatibilityRequest, MetricType, RunRealtimeReportRequest, RunReportRequest)
from google.api_core.exceptions import BadRequest
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

    alpha = data_v1alpha.AlphaAnalyticsDataClient(**options)
    parent = f"properties/{main['id']}"
    today = date.fromisoformat(main["today"])
    ago = lambda days: str(today - timedelta(days))

    def ask(dimensions, metrics, ranges, **more):
        """A report of the main property: rows by the values of their dimensions."""
        page = data.run_report(RunReportRequest(
            property=parent, limit=250_000, date_ranges=ranges, dimensions=[{"name": name} for name in dimensions],
            metrics=[{"name": name} for name in metrics], **more))
        kinds = [header.type_ for header in page.metric_headers]
        return {tuple(cell.value for cell in row.dimension_values):
                [value(kind, cell.value) for kind, cell in zip(kinds, row.metric_values)] for row in page.rows}

    def window(start, end, **more):
        return {"start_date": ago(start), "end_date": ago(end)} | more

    def ours(tool, dimensions, metrics, **arguments):
        """The same of ours."""
        _, rows = ga4.call(tool, resource_id=main["id"], dimensions=dimensions, metrics=metrics, **arguments)
        names = [*dimensions, "dateRange"] if "compare_ranges" in arguments else dimensions
        return {tuple(row[name] for name in names): [row[name] for name in metrics] for row in rows}

    compared = ["country"], ["sessions", "totalUsers", "bounceRate"]
    equal("compared ranges", ours("run_report", *compared, **window(7, 1), compare_ranges=[window(14, 8, name="before")]),
          ask(*compared, [window(7, 1, name="current"), window(14, 8, name="before")]))
    many = ["sessions", "totalUsers", "newUsers", "activeUsers", "eventCount", "screenPageViews", "engagedSessions", "keyEvents",
            "ecommercePurchases", "totalRevenue", "bounceRate", "advertiserAdCost", "keyEvents:purchase"]
    halves = [ask(["country"], part, [window(28, 1)], keep_empty_rows=True) for part in (many[:10], many[10:])]
    joined = {key: row + halves[1][key] for key, row in halves[0].items()}
    equal("many metrics", ours("run_report", ["country"], many, **window(28, 1)),
          {key: row for key, row in joined.items() if any(row)})
    days = Counter()
    for day in range(1, 6):
        for key, [events] in ask(["country"], ["eventCount"], [window(day, day)]).items():
            days[key] += events
    equal("day by day", ours("run_report", ["country"], ["eventCount"], **window(5, 1), split="day"),
          {key: [events] for key, events in days.items()})
    conditions = [{"field": "country", "match_type": "IN_LIST", "values": ["Germany", "Austria"]},
                  {"field": "pagePath", "match_type": "PARTIAL_REGEXP", "value": "^/(products|blog)/", "group": "a"},
                  {"field": "customEvent:plan", "match_type": "EMPTY", "not": True, "group": "a"}]
    text = lambda field, kind, value: {"filter": {"field_name": field, "string_filter": {"match_type": kind, "value": value}}}
    tree = {"and_group": {"expressions": [
        {"filter": {"field_name": "country", "in_list_filter": {"values": ["Germany", "Austria"]}}},
        {"or_group": {"expressions": [
            text("pagePath", "PARTIAL_REGEXP", "^/(products|blog)/"),
            {"not_expression": {"filter": {"field_name": "customEvent:plan", "empty_filter": {}}}}]}}]}}
    between = {"filter": {"field_name": "eventCount", "between_filter": {
        "from_value": {"int64_value": 5}, "to_value": {"int64_value": 500}}}}
    filtered = ["pagePath", "country"], ["eventCount", "totalRevenue"]
    equal("filters of every kind", ours("run_report", *filtered, **window(28, 1), dimension_filters=conditions, currency_code="USD",
                                        metric_filters=[{"field": "eventCount", "match_type": "BETWEEN", "values": [5, 500]}]),
          ask(*filtered, [window(28, 1)], dimension_filter=tree, metric_filter=between, currency_code="USD"))
    filled = ours("run_report", ["date"], ["sessions"], **window(9, 1), fill_days=True, keep_empty_rows=True)
    equal("filled days", filled, {(str(date.fromisoformat(day)),): row for (day,), row in
                                  ask(["date"], ["sessions"], [window(9, 1)], keep_empty_rows=True).items()})
    yield "compared ranges, many metrics, days put together, filled days and filters of every kind are Google's"

    for _ in range(5):
        # A minute may end between the two.
        live = data.run_realtime_report(RunRealtimeReportRequest(
            property=parent, dimensions=[{"name": "country"}], metrics=[{"name": "activeUsers"}, {"name": "eventCount"}],
            minute_ranges=[{"start_minutes_ago": 20, "end_minutes_ago": 1}]))
        theirs = {(row.dimension_values[0].value,): [int(cell.value) for cell in row.metric_values] for row in live.rows}
        mine = ours("run_realtime_report", ["country"], ["activeUsers", "eventCount"], start_minutes_ago=20, end_minutes_ago=1)
        if mine == theirs:
            break
    equal("realtime", mine, theirs)
    yield f"run_realtime_report has the rows of google-analytics-data: {len(theirs)}"

    pages = [{"name": "products", "pattern": "^/products/"}, {"name": "blog", "pattern": "^/blog/"}]
    clusters = lambda **more: {row["cluster"]: row for row in ga4.call(
        "run_report_by_regex_cluster", resource_id=main["id"], dimension="pagePath", clusters=pages, **more)[1]}
    views = ask(["pagePath"], ["screenPageViews"], [window(28, 1)])
    rows, exact = clusters(metrics=["screenPageViews"]), clusters(metrics=["totalUsers", "sessions"], mode="exact")
    for page in pages:
        one = ask([], ["totalUsers", "sessions"], [window(28, 1)], dimension_filter=text("pagePath", "PARTIAL_REGEXP", page["pattern"]))
        equal(f"users of {page['name']}", [exact[page["name"]][name] for name in ("totalUsers", "sessions")], one[()])
        matching = sum(count for (path,), [count] in views.items() if re.search(page["pattern"], path))
        equal(f"views of {page['name']}", rows[page["name"]]["screenPageViews"], matching)
    yield f"run_report_by_regex_cluster has Google's figures in both modes: {len(pages)} patterns"

    fields = ["firstUserDefaultChannelGroup", "sessionDefaultChannelGroup", "defaultChannelGroup"]
    theirs = {column: ask([field], ["keyEvents:purchase"], [window(28, 1)])
              for column, field in zip(("first_user", "session", "event"), fields)}
    conversion = next(entry for entry in alpha.get_metadata(name=f"{parent}/metadata").conversions
                      if entry.display_name == "purchase")
    for column, model in (("data_driven", "DATA_DRIVEN"), ("last_click", "LAST_CLICK")):
        answer = alpha.run_report(data_v1alpha.RunReportRequest.from_json(json.dumps({
            "property": parent, "dateRanges": [{"startDate": ago(28), "endDate": ago(1)}], "dimensions": [{"name": fields[2]}],
            "metrics": [{"name": "allConversionsByConversionDate"}],
            "conversionSpec": {"conversionActions": [conversion.conversion_action], "attributionModel": model}})))
        theirs[column] = {(row.dimension_values[0].value,): [float(row.metric_values[0].value)] for row in answer.rows}
    _, rows = ga4.call("compare_conversion_models", resource_id=main["id"], key_events=["purchase"])
    for column, credits in theirs.items():
        equal(column, {(row["channel"],): [row[column]] for row in rows if row[column]},
              {key: credit for key, credit in credits.items() if any(credit)})
    for by in ("source_medium", "source", "medium", "campaign"):
        ga4.call("compare_conversion_models", resource_id=main["id"], by=by)
    yield f"compare_conversion_models has the credit of each of Google's reports: {len(theirs)} models"

    events = [{"event": "view_item"}, {"event": "add_to_cart"}, {"event": "purchase"}]
    of_event = lambda name: {"funnelEventFilter": {"eventName": name}}
    steps = [{"name": step["event"], "filterExpression": of_event(step["event"])} for step in events]
    mobile = {"fieldName": "deviceCategory", "stringFilter": {"matchType": "EXACT", "value": "mobile"}}
    def segment(scope):
        condition = {"conditionScoping": f"{scope.upper()}_CRITERIA_WITHIN_SAME_EVENT",
                     "segmentFilterExpression": {"segmentFilter": mobile}}
        return {"name": scope, f"{scope}Segment": {f"{scope}InclusionCriteria": {"andConditionGroups": [condition]}}}
    scopes = ["user", "session", "event"]
    funnels = [
        ("closed", {}, {}),
        ("open", {"open": True}, {"funnel": {"isOpenFunnel": True, "steps": steps}}),
        ("within and directly", {"steps": [events[0], events[1] | {"within_seconds": 60}, events[2] | {"directly": True}]},
         {"funnel": {"steps": [steps[0], steps[1] | {"withinDurationFromPriorStep": "60s"}, steps[2] | {"isDirectlyFollowedBy": True}]}}),
        ("with fields", {"steps": [{"name": "phone", "filters": [{"field": "deviceCategory", "match_type": "EXACT", "value": "mobile"}]}, events[2]]},
         {"funnel": {"steps": [{"name": "phone", "filterExpression": {"funnelFieldFilter": mobile}}, steps[2]]}}),
        ("breakdown", {"breakdown": "country", "breakdown_limit": 3},
         {"funnelBreakdown": {"breakdownDimension": {"name": "country"}, "limit": 3}}),
        ("segments", {"segments": [{"name": scope, "scope": scope, "filters": [
            {"field": "deviceCategory", "match_type": "EXACT", "value": "mobile"}]} for scope in scopes]},
         {"segments": [segment(scope) for scope in scopes]}),
        ("trended", {"trended": True}, {"funnelVisualizationType": "TRENDED_FUNNEL"}),
        ("next action", {"next_action": "eventName"}, {"funnelNextAction": {"nextActionDimension": {"name": "eventName"}}}),
    ]
    for what, asked, request in funnels:
        answer = alpha.run_funnel_report(data_v1alpha.RunFunnelReportRequest.from_json(json.dumps(
            {"property": parent, "dateRanges": [{"startDate": ago(14), "endDate": ago(1)}], "funnel": {"steps": steps}} | request)))
        _, rows = ga4.call("run_funnel_report", resource_id=main["id"], **{"steps": events} | window(14, 1) | asked)
        drawn = "trended" in asked or "next_action" in asked
        table = answer.funnel_visualization if drawn else answer.funnel_table
        names = [header.name for header in table.dimension_headers]
        last = len(asked.get("steps", events))
        theirs = {}
        for row in table.rows:
            values = dict(zip(names, (cell.value for cell in row.dimension_values)))
            key = values.pop("funnelStepName"), values.pop("segment", None), *values.values()
            figures = [float(cell.value) for cell in row.metric_values[:1 if drawn else 4]]
            # Nobody goes on from the last step, whatever the figures say.
            theirs[key] = figures if drawn or not key[0].startswith(f"{last}.") else [figures[0], None, None, None]
        more = {"breakdown": "country", "trended": "date", "next action": "next_action"}.get(what)
        part = lambda row: [] if more is None else ["RESERVED_TOTAL" if row[more] is None else row[more].replace("-", "") if more == "date" else row[more]]
        figures = ["activeUsers"] + ([] if drawn else ["funnelStepCompletionRate", "funnelStepAbandonments", "funnelStepAbandonmentRate"])
        equal(f"funnel, {what}", {(f"{row['step']}. {row['step_name']}", row.get("segment"), *part(row)): [row[name] for name in figures]
                                  for row in rows}, theirs)
    yield f"run_funnel_report has the rows of google-analytics-data: {len(funnels)} funnels"

    pairs = [(dimension, metric) for dimension in ("date", "itemName", "eventName", "source")
             for metric in ("sessions", "itemRevenue", "sessionKeyEventRate", "advertiserAdCost")]
    for dimension, metric in pairs:
        try:
            data.check_compatibility(CheckCompatibilityRequest(
                property=parent, dimensions=[{"name": dimension}], metrics=[{"name": metric}]))
            good = True
        except BadRequest:
            good = False
        checked, _ = ga4.call("validate_report", resource_id=main["id"], arguments={"metrics": [metric], "dimensions": [dimension]})
        equal(f"{dimension} and {metric} go together", checked["valid"], good)
    known = data.get_metadata(name=f"{parent}/metadata")
    listed = [("dimension", entry) for entry in known.dimensions] + [("metric", entry) for entry in known.metrics]
    for kind, entry in listed:
        found, _ = ga4.call("search_fields", resource_id=main["id"], query=entry.api_name, kind=kind)
        best = found["fields"][0]
        equal(entry.api_name, [best["name"], best["title"], best["category"], best.get("custom", False), best.get("old_names", [])],
              [entry.api_name, entry.ui_name, entry.category, entry.custom_definition, list(entry.deprecated_api_names)])
    yield f"validate_report and search_fields agree with Google's client: {len(pairs)} pairs, {len(listed)} fields"

    theirs = [entry.property.split("/")[1] for account in admin.list_account_summaries()
              for entry in account.property_summaries]
    ours, _ = ga4.call("autocontext")
    equal("properties", ours["total_available"], len(theirs))
    equal("properties that are none", {entry["resource_id"] for entry in ours["resources"]} - set(theirs), set())
    yield f"autocontext counts the properties of google-analytics-admin: {len(theirs)}"

    blocks = ga4.blocks(main["id"])
    settings = admin.get_property(name=parent)
    equal("settings", [blocks["property_settings"][name] for name in ("name", "time_zone", "currency", "industry")],
          [settings.display_name, settings.time_zone, settings.currency_code, settings.industry_category.name])
    retention = admin.get_data_retention_settings(name=f"{parent}/dataRetentionSettings")
    equal("retention", blocks["property_settings"]["data_retention"]["eventDataRetention"], retention.event_data_retention.name)
    equal("key events", [event["event_name"] for event in blocks["key_events"]],
          [event.event_name for event in admin.list_key_events(parent=parent)])
    scope = {"EVENT": "customEvent", "USER": "customUser", "ITEM": "customItem"}
    equal("custom dimensions", {entry["api_name"] for entry in blocks["custom_dimensions"]},
          {f"{scope[entry.scope.name]}:{entry.parameter_name}" for entry in admin.list_custom_dimensions(parent=parent)})
    equal("custom metrics", {entry["api_name"]: entry["unit"] for entry in blocks["custom_metrics"]},
          {f"customEvent:{entry.parameter_name}": entry.measurement_unit.name for entry in admin.list_custom_metrics(parent=parent)})
    equal("links to Google Ads", [link["customer_id"] for link in blocks["links"]["google_ads"]],
          [link.customer_id for link in admin.list_google_ads_links(parent=parent)])

    newest = admin_v1alpha.AnalyticsAdminServiceClient(**options)
    attribution = newest.get_attribution_settings(name=f"{parent}/attributionSettings")
    equal("attribution", blocks["property_settings"]["attribution"]["reportingAttributionModel"],
          attribution.reporting_attribution_model.name)
    equal("calculated metrics", [entry["api_name"] for entry in blocks["calculated_metrics"]],
          [f"calcMetric:{entry.calculated_metric_id}" for entry in newest.list_calculated_metrics(parent=parent)])
    equal("channel groups", [entry["display_name"] for entry in blocks["channel_groups"]],
          [group.display_name for group in newest.list_channel_groups(parent=parent)])
    equal("links to BigQuery", [(link["project"], link["location"]) for link in blocks["links"]["bigquery"]],
          [(link.project.removeprefix("projects/"), link.dataset_location) for link in newest.list_big_query_links(parent=parent)])
    def last_day(annotation):
        day = annotation.annotation_date if annotation.annotation_date.year else annotation.annotation_date_range.end_date
        return date(day.year, day.month, day.day)
    recent = [entry for entry in newest.list_reporting_data_annotations(parent=parent) if last_day(entry) >= today - timedelta(90)]
    equal("annotations", {entry["title"] for entry in blocks["annotations"]}, {entry.title for entry in recent})
    yield f"settings, attribution, retention, fields, links and annotations are Google's; {len(blocks)} blocks were asked for"


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
