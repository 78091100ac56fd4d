"""Planted bugs of datasets that change under the jobs that read them: what only two gateways under load show."""

LOAD = "./integration TestJobsWhileAllChanges"
KEEPER = "cmd/internal/node/keeper.go"
CATALOG = "gateway/catalog/catalog.go"
HANGS = "./gateway/catalog TestAStoreThatHangsHoldsUpItsOwnDatasetAlone"

PLANTS = [
    ("a job gets the current generation whichever it names", LOAD, [(CATALOG, 'generation != "" && k != keyOf(h.entry)', 'generation != "" && h.entry != h.entry')]),
    (
        "a generation is closed while jobs read it",
        LOAD,
        [("gateway/serve.go", "kept.source != given.Source", "kept.source == given.Source")],
    ),
    ("what was taken out is never closed", LOAD, [(CATALOG, "\t\tcase h.current:\n", "\t\tcase h.current || !h.removed.IsZero():\n")]),
    (
        "a generation that is not open is not looked for in the store",
        LOAD,
        [(KEEPER, "\tp := k.pin(name)\n", "\tp := k.pin(name)\n\tif p != nil {\n\t\tk.leave(p)\n\t}\n\tp = nil\n")],
    ),
    (
        "a dataset that grows is not followed",
        LOAD,
        [("cmd/internal/node/reload.go", "\t\tif same {\n", "\t\tif same || err == nil {\n")],
    ),
    ("generations of all datasets are opened one after another", HANGS, [(CATALOG, "c.begin(ctx, k.name)", 'c.begin(ctx, "")')]),
    ("generations of one dataset are opened side by side", HANGS, [(CATALOG, "\t\tif other == nil {\n", "\t\tif other == nil || true {\n")]),
    (
        "a generation whose store failed is not looked for again for ten seconds",
        "./gateway/catalog TestAStoreThatFailedIsAskedAgainSoon",
        [(CATALOG, "\t\tif c.passing(err) {\n", "\t\tif false {\n")],
    ),
    (
        "copies of indexes that are open are removed",
        "./cmd/internal/node TestOldCopiesOfIndexesAreRemoved",
        [(KEEPER, "return open[generation] })", "return open[\"\"] })")],
    ),
    (
        "old copies of indexes stay",
        "./cmd/internal/node TestOldCopiesOfIndexesAreRemoved",
        [(KEEPER, "\tk.announce()\n\tk.removeCopies()\n", "\tk.announce()\n")],
    ),
    (
        "an index that is opened from its copy is removed as unused",
        "./chunkindex TestRemoveCopies",
        [("chunkindex/open.go", "\t\t_ = os.Chtimes(local, now, now)", "\t\t_ = now")],
    ),
    (
        "a copy of an index that is being made is removed",
        "./chunkindex TestRemoveCopies",
        [("chunkindex/copies.go", "time.Since(info.ModTime()) < unused", "isCopy && time.Since(info.ModTime()) < unused")],
    ),
    (
        "a dataset whose store hangs keeps the others from being followed",
        "./cmd/internal/node TestFollowedBesideAStoreThatHangs",
        [("cmd/internal/node/reload.go", "\tif what.apart {\n\t\tvar cancel", "\tif !what.apart {\n\t\tvar cancel")],
    ),
]
