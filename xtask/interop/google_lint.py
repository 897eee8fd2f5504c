"""Statements that people run on the Analytics export, from the package ga4-bigquery-lint: our connector's gate lets all of them pass.

    google_lint.py URL CREDENTIALS PROGRAMS

They are read from the package where it is installed. They only read; what else may be wrong with one, such as a column that
the sandbox's export does not have, is for BigQuery to say. Each line that is printed was checked.
"""

import json
import sys
from pathlib import Path

from ga4_bigquery_lint import cli

from connector import Connector

# Statements in version 0.1.0, as its own check counts them.
STATEMENTS = 16
READ_ONLY_VIOLATION = -32019
# How the gate refuses what it can't read.
UNREADABLE = "can't be read at line"
# The dataset that the statements are written for.
PLACEHOLDER = "YOUR_PROJECT.analytics_XXXXXXXXX"


def statements(file):
    """The statements of a file, with their comments."""
    text = file.read_text()
    masked, problems = cli.mask_comments(text)
    if problems or len(masked) != len(text):
        raise SystemExit(f"{file.name} can't be cut into statements: {problems}")
    at = 0
    for statement, _ in cli.split_statements(masked):
        at = masked.index(statement, at)
        yield text[at:at + len(statement)]
        at += len(statement)


def main():
    url, login, programs = sys.argv[1:]
    bigquery = Connector(Path(programs) / "bigquery", url, json.loads(Path(login).read_text()), cost_limit_usd=1)
    files = sorted(Path(cli.bundled_queries_dir()).glob("*.sql"))
    found = [(file.name, statement) for file in files for statement in statements(file)]
    if len(found) != STATEMENTS:
        raise SystemExit(f"{len(found)} statements were found, {STATEMENTS} are in the package")
    ran = 0
    for name, statement in found:
        query = statement.replace(PLACEHOLDER, "acp-sandbox.analytics_310000001")
        result = bigquery.answer("execute_query", {"resource_id": "acp-sandbox.analytics_310000001", "query": query})
        text = result["content"][0]["text"]
        code = result.get("_meta", {}).get("acp", {}).get("error", {}).get("code")
        if not result.get("isError"):
            ran += 1
        elif code is None:
            raise SystemExit(f"{name}: an error without a code: {text}")
        elif code == READ_ONLY_VIOLATION or UNREADABLE in text:
            raise SystemExit(f"{name}: the gate refuses a statement that only reads: {text}")
        else:
            print(f"{name}: passed the gate, then {text[:200]}", file=sys.stderr)
    # A gate that refused nothing would pass as well.
    result = bigquery.answer("execute_query", {"resource_id": "acp-sandbox.loads", "query": f"{found[0][1]}; DELETE FROM t WHERE TRUE"})
    if result["_meta"]["acp"]["error"]["code"] != READ_ONLY_VIOLATION:
        raise SystemExit("a statement that writes passed the gate")
    print(f"the gate lets {len(found)} of {STATEMENTS} statements of ga4-bigquery-lint pass; {ran} of them ran on the sandbox's export")


if __name__ == "__main__":
    main()
