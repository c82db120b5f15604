"""Write the generated sections of the reference pages: `python -m deploy.docs`."""

import argparse

from deploy.docs.pages import list_pages, renew

if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m deploy.docs", description=__doc__).parse_args()
    for page in list_pages():
        page.write_text(renew(page))
