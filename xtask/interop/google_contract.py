"""What the sandbox kept of the requests and answers, held against Google's own descriptions of its APIs.

    google_contract.py URL

The descriptions (discovery documents) come with google-api-python-client; the one of analyticsdata.v1alpha there is years older
than the methods in use, so that API's messages are those of google-analytics-data. Answers must be what they describe, whoever asked;
requests only where a connector of ours sent them, since Google's own clients take liberties of their own, such as numbers for
enumerations. Where this check is looser than a description, a comment says why. Each line that is printed was checked.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qsl, unquote
from urllib.request import urlopen

import fastjsonschema
import googleapiclient
from google.analytics import data_v1alpha
from google.protobuf import json_format

DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
# Every one of these must have been used. Methods are told apart by their paths.
APIS = ["searchconsole.v1", "analyticsdata.v1beta", "analyticsadmin.v1beta", "analyticsadmin.v1alpha", "bigquery.v2"]

# Bodies in requests: fields without which Google answers 400. The documents name none.
REQUIRED = {
    "SearchAnalyticsQueryRequest": ["startDate", "endDate"],
    "InspectUrlIndexRequest": ["inspectionUrl", "siteUrl"],
    "RunReportRequest": ["dateRanges", "metrics"],
}
# Search Console takes and gives enumerations as its documentation writes them, byPage and hourly_all, while the document has
# them in upper case, BY_PAGE and HOURLY_ALL.
LOWER_CASE_TOO = "searchconsole.v1"
# The documentation writes these fields with underscores, and the service has been seen to send both.
SNAKE_CASE_TOO = {"Metadata"}

# Google's client for BigQuery sends the value of a parameter as a number where it is one, and the sandbox's jobs repeat what
# they were asked. So that much is allowed in answers, see QueryParameterValue in `schema_of`; requests of ours have texts.

# A method that takes a file has a second address. Documents have it for whole uploads; Google's clients send one in parts to
# the same address, first the request without the file, and then the file as PUT to the address that the answer names, with a
# parameter that no document has.
UPLOAD = "/upload"
OF_UPLOAD = {"upload_id": {"type": "string", "location": "query"}}
# What is no JSON.
FILE = object()


def lower_cases(name):
    first, *rest = name.lower().split("_")
    return [name.lower(), first + "".join(part.capitalize() for part in rest)]


def snake_case(name):
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def schema_of(described, api, request, name=None):
    """A schema of the document as JSON Schema: nothing that it does not name is allowed."""
    if "$ref" in described:
        return {"$ref": f"#/$defs/{described['$ref']}"}
    kind, form = described.get("type"), described.get("format")
    if kind == "any":
        return {}
    schema = {"type": kind}
    if "enum" in described:
        more = lower_cases if api == LOWER_CASE_TOO else lambda value: []
        schema["enum"] = [form for value in described["enum"] for form in [value, *more(value)]]
    if kind == "string" and form in ("int64", "uint64"):
        # In requests Google takes a number too.
        schema = {"type": ["string", "integer"] if request else "string", "pattern": r"^-?\d+$"}
    if kind == "integer" and form == "int32":
        schema |= {"minimum": -(2**31), "maximum": 2**31 - 1}
    if kind == "array":
        schema["items"] = schema_of(described["items"], api, request)
    if kind == "object":
        fields = {field: schema_of(inner, api, request) for field, inner in described.get("properties", {}).items()}
        if name in SNAKE_CASE_TOO and not request:
            fields |= {snake_case(field): inner for field, inner in fields.items()}
        if name == "QueryParameterValue" and not request:
            fields["value"] = {"type": ["string", "number"]}
        more = described.get("additionalProperties")
        schema |= {"properties": fields, "additionalProperties": schema_of(more, api, request) if more else False}
        if request and name in REQUIRED:
            schema["required"] = REQUIRED[name]
    return schema


class Api:
    """A document: its methods, and what their bodies may be."""

    def __init__(self, name):
        self.name = name
        document = json.loads((DOCUMENTS / f"{name}.json").read_text())
        self.everywhere = document["parameters"]
        self.base = "/" + document["servicePath"]
        self.methods = list(self.methods_of(document))
        self.bodies = {
            request: {key: schema_of(value, name, request, key) for key, value in document["schemas"].items()}
            for request in (True, False)
        }
        self.compiled = {}

    @staticmethod
    def methods_of(resource):
        yield from resource.get("methods", {}).values()
        for inner in resource.get("resources", {}).values():
            yield from Api.methods_of(inner)

    def method_of(self, method, path, query):
        """The method of a request, and the values of its path."""
        for described in self.methods:
            # flatPath names each part; older methods only have a path.
            template = described.get("flatPath", described["path"])
            pattern = re.sub(r"\\\{\+?(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.base + template))
            takes_file = "mediaUpload" in described and path.startswith(UPLOAD)
            found = re.fullmatch(pattern, path.removeprefix(UPLOAD) if takes_file else path)
            if found and method == described["httpMethod"]:
                # The answer comes when the file is there.
                later = takes_file and "uploadType=resumable" in query
                return described | {"response": None} if later else described, found.groupdict()
            if found and takes_file and method == "PUT":
                return described | {"request": FILE, "parameters": described["parameters"] | OF_UPLOAD}, found.groupdict()
        return None, {}

    def check_body(self, described, request, body, problem):
        """`described` is the method's `request` or `response`."""
        if described is FILE:
            return
        if described is None or body is None:
            if (described is None) != (body is None):
                problem("a body that should not be there" if described is None else "no body")
            return
        name = described["$ref"]
        if (request, name) not in self.compiled:
            schema = {"$defs": self.bodies[request], "$ref": f"#/$defs/{name}"}
            self.compiled[request, name] = fastjsonschema.compile(schema)
            # What refuses nothing shows nothing.
            try:
                self.compiled[request, name]({"noFieldOfGoogle": 1})
                raise SystemExit(f"{name} takes any field")
            except fastjsonschema.JsonSchemaValueException:
                pass
        try:
            self.compiled[request, name](body)
        except fastjsonschema.JsonSchemaValueException as error:
            # Places in lists are left out, so that rows with the same problem are one.
            problem(re.sub(r"\[\d+\]", "[]", f"{error.message[:300]}"))

    def check_query(self, described, query, problem):
        known = self.everywhere | {
            name: parameter for name, parameter in described.get("parameters", {}).items() if parameter["location"] == "query"}
        given = dict(parse_qsl(query, keep_blank_values=True))
        for name, text in given.items():
            parameter = known.get(name)
            if parameter is None:
                problem(f"the parameter {name} is not one of the method")
            elif "enum" in parameter and text not in parameter["enum"]:
                problem(f"the parameter {name} can't be {text}")
            elif parameter["type"] == "integer" and not re.fullmatch(r"-?\d+", text):
                problem(f"the parameter {name} is a whole number")
            elif parameter["type"] == "boolean" and text not in ("true", "false"):
                problem(f"the parameter {name} is true or false")
        for name, parameter in known.items():
            if parameter.get("required") and name not in given:
                problem(f"the parameter {name} is missing")


class AlphaData:
    """Methods of analyticsdata.v1alpha, whose bodies must fit the messages that Google generates for its client."""

    name = "analyticsdata.v1alpha"
    METHODS = {
        ("POST", "runReport"): (data_v1alpha.RunReportRequest, data_v1alpha.RunReportResponse),
        ("POST", "runFunnelReport"): (data_v1alpha.RunFunnelReportRequest, data_v1alpha.RunFunnelReportResponse),
        ("GET", "metadata"): (None, data_v1alpha.Metadata),
    }

    def method_of(self, method, path, query):
        found = re.fullmatch(r"/v1alpha/properties/(?P<property>[^/:]+)[:/](?P<name>\w+)", path)
        messages = self.METHODS.get((method, found["name"])) if found else None
        if not messages:
            return None, {}
        request, response = messages
        described = {"id": f"analyticsdata.properties.{found['name']}", "response": response}
        if request:
            described["request"] = request
        return described, {"property": found["property"]}

    def check_query(self, described, query, problem):
        if query:
            problem("parameters, although there are none")

    def check_body(self, described, request, body, problem):
        if described is None or body is None:
            if (described is None) != (body is None):
                problem("a body that should not be there" if described is None else "no body")
            return
        try:
            json_format.ParseDict(body, described.pb()())
        except json_format.ParseError as error:
            problem(str(error)[:300])


def main():
    with urlopen(f"{sys.argv[1]}/__sandbox/exchanges") as answer:
        exchanges = json.load(answer)["exchanges"]
    apis = [AlphaData(), *(Api(name) for name in APIS)]
    problems, requests, answers = Counter(), Counter(), Counter()
    for exchange in exchanges:
        method, path = exchange["method"], exchange["path"]
        for api in apis:
            described, parts = api.method_of(method, path, exchange["query"])
            if described:
                break
        else:
            problems[f"{method} {path} is no method of any API"] += 1
            continue

        def problem(what, part):
            problems[f"{described['id']}, {part}: {what}"] += 1

        for name, value in parts.items():
            if not unquote(value):
                problem(f"{name} is empty", "request")
        if exchange["user_agent"].startswith("acp-connectors/"):
            api.check_query(described, exchange["query"], lambda what: problem(what, "request"))
            api.check_body(described.get("request"), True, exchange["request"], lambda what: problem(what, "request"))
            requests[api.name, described["id"]] += 1
        # Errors have a form that the documents do not describe.
        if exchange["status"] == 200:
            api.check_body(described.get("response"), False, exchange["answer"], lambda what: problem(what, "answer"))
            answers[api.name, described["id"]] += 1
    for what, times in problems.items():
        print(f"{times} times: {what}", file=sys.stderr)
    for name in [api.name for api in apis]:
        methods = sorted({method for api, method in requests if api == name})
        sent = sum(times for (api, _), times in requests.items() if api == name)
        answered = sum(times for (api, _), times in answers.items() if api == name)
        if not sent or not answered:
            raise SystemExit(f"{name}: {sent} requests and {answered} answers were checked: something is not asked any more")
        print(f"{name}: {sent} requests of our connectors and {answered} answers are as described ({', '.join(methods)})")
    if problems:
        raise SystemExit(f"{len(problems)} kinds of problems")


if __name__ == "__main__":
    main()
