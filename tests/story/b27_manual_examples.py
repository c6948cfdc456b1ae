"""Every example of the manual and of the README does what it says: shell, Python and C run against a daemon,
settings are checked."""
import manual
from examples import Examples
from harness import *

with Story("b27 the examples of the manual and the README", 600) as story:
    if PENSTOCK is None:
        raise Skip("penstock is not built: run make")
    examples = Examples(story)
    for path in [*manual.pages().values(), os.path.join(ROOT, "README.md")]:
        examples.check(path)
    examples.tell()
    story.fact("most are run or checked", len(examples.run) + len(examples.checked) > len(examples.marked))
