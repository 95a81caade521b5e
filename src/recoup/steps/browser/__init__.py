"""Steps in a browser, beside performing them: what the run keeps of its page and learns about its targets.

    state.py         the kind as the engine and workers know it: `BrowserState`
    hooks.py         one run's hooks: translates between the engine and the modules below
    run_page.py      the life of a run's page: open, kept, lost, restored, proven, or a question
    proofs.py        what steps have proven of the page, asked again when the run returns to it
    kept_page.py     under which keys a run keeps its page, and what can be said of it without a browser
    run_targets.py   how targets may be found, and the facts about how they were found
    recall.py        what a workflow has learned about its targets

`runtimes/browser/` performs the steps. Only values pass between the two: `Order`, `Outcome`, the port `Pages`.
"""
