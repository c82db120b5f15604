"""Write the generated sections of the reference pages, and of the Helm chart's schema: `python -m deploy.docs`."""

import argparse

from deploy.docs import chart
from deploy.docs.pages import list_pages, renew

if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m deploy.docs", description=__doc__).parse_args()
    chart.SCHEMA.write_text(chart.renew_schema(chart.SCHEMA.read_text()))
    for page in list_pages():
        page.write_text(renew(page))
