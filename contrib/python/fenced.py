#!/usr/bin/env python3
"""A job whose writes are fenced, in Python's standard client for PostgreSQL
(psycopg2; on Debian the package python3-psycopg2).

    STINT_FENCE="$DATABASE_URL" stint run billing -- ./fenced.py

With STINT_FENCE (or --fence) stint raises first, and ends the session of a
predecessor that froze inside its transaction; a raise in SQL would wait for it.
stint gives STINT_NAME and STINT_GRANT to what it runs. The functions stint_raise,
stint_admit and stint_finish come from `stint migrate postgres://...`, in the
database that holds the data. A refusal has an SQLSTATE that begins with SF.
"""
import os
import sys

import psycopg2

CHUNKS = 4


def main():
    name, grant = os.environ["STINT_NAME"], os.environ["STINT_GRANT"]
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    try:
        # The first act, before any read: from here on an older holder is refused.
        with db, db.cursor() as c:
            c.execute("SELECT previous_state FROM stint_raise(%s, %s)", (name, grant))
            print("the last holder left it", c.fetchone()[0] or "untouched")
        # What was committed is the progress: nothing else is believed.
        with db, db.cursor() as c:
            c.execute("SELECT count(DISTINCT chunk) FROM invoices")
            done = c.fetchone()[0]
        for chunk in range(done, CHUNKS):
            # `with db` is one transaction; the check is its first statement.
            with db, db.cursor() as c:
                c.execute("SELECT stint_admit(%s, %s)", (name, grant))
                c.execute("INSERT INTO invoices (chunk, amount) SELECT %s, i FROM generate_series(1, 100) AS i", (chunk,))
                if chunk == CHUNKS - 1:
                    c.execute("SELECT stint_finish(%s, %s)", (name, grant))
    except psycopg2.Error as e:
        if (e.pgcode or "").startswith("SF"):
            print(e.pgerror, file=sys.stderr)
            return 76  # as stint says it: the lease was lost
        raise  # a lost answer to COMMIT, too: the next run reads how far it came
    finally:
        db.close()
    print("billed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
