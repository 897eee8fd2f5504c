"""For `cargo xtask bench`: all rows of a query, by Google's client for Python, as a JSON array with one row a line.

    bigquery_rows.py URL PROJECT SQL CREDENTIALS OUT

What it used of the processor and of memory is printed.
"""

import json
import resource
import sys
from pathlib import Path

from google.cloud import bigquery
from google.oauth2.credentials import Credentials


def main():
    url, project, sql, login, out = sys.argv[1:]
    login = json.loads(Path(login).read_text())
    person = Credentials(None, refresh_token=login["refresh_token"], token_uri=f"{url}/token",
                         client_id=login["client_id"], client_secret=login["client_secret"])
    client = bigquery.Client(project, person, client_options={"api_endpoint": url})
    with open(out, "w") as file:
        separator = "["
        for row in client.query(sql).result():
            cells = dict(row)
            cells["created"] = cells["created"].isoformat(timespec="microseconds").replace("+00:00", "Z")
            cells["day"] = cells["day"].isoformat()
            cells["amount"] = float(cells["amount"])
            file.write(separator + json.dumps(cells, ensure_ascii=False, separators=(",", ":")))
            separator = ",\n"
        file.write("\n]")
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    seconds = int(cpu)
    print(json.dumps({
        "cpu": {"secs": seconds, "nanos": int((cpu - seconds) * 1e9)},
        "peak": used.ru_maxrss * 1024,
        "resident": used.ru_maxrss * 1024,
    }))


if __name__ == "__main__":
    main()
