"""What the verdicts on recorded runs would have noticed, for their pages.

To find the smallest effects takes a second and more for each record, so they are kept, under a
digest of the record and of all code that judges it.
"""

import json
from dataclasses import replace
from pathlib import Path

from companion.book.figures import Wanted, call_each, digests
from companion.study.exhibits import find_exhibit
from companion.study.files import write_atomically
from companion.study.perturbations import smallest_detectable
from companion.study.recorded import Recorded
from companion.study.records import RECORDED

__all__ = ["add_notices", "find_notices"]


def add_notices(recorded: Recorded, project: Path, jobs: int = 1) -> Recorded:
    """Return records whose verdicts, where computed anew, say what would have changed them.

    Parameters
    ----------
    recorded : Recorded
    project : Path
        The checkout, whose ``_build/notices`` keeps what is found.
    jobs : int
        Processes.
    """
    cache = project / "_build" / "notices"
    judged = [exhibit for exhibit, judging in recorded.judgings.items() if not judging.lacks]
    records = [Wanted(exhibit, project / RECORDED / exhibit, recorded=True) for exhibit in judged]
    paths = {
        one.exhibit: cache / f"{one.exhibit}-{digest[:20]}.json"
        for one, digest in zip(records, digests(records).values(), strict=True)
    }
    missing = [one for one in records if not paths[one.exhibit].is_file()]
    call_each(find_notices, [(one, paths[one.exhibit]) for one in missing], jobs)
    judgings = dict(recorded.judgings)
    for exhibit, path in paths.items():
        found = json.loads(path.read_text(encoding="utf-8"))
        verdicts = judgings[exhibit].verdicts
        noted = tuple(replace(v, notices=found.get(v.target, "")) for v in verdicts)
        judgings[exhibit] = replace(judgings[exhibit], verdicts=noted)
    return replace(recorded, judgings=judgings)


def find_notices(record: Wanted, path: Path) -> None:
    """Find the smallest effects that would change each verdict on a record; write them to a file.

    Older files on the same record go.
    """
    found = smallest_detectable(find_exhibit(record.exhibit).file, record.read())
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(f"{path.stem.rpartition('-')[0]}-*.json"):
        old.unlink()
    write_atomically(path, json.dumps(found).encode())
