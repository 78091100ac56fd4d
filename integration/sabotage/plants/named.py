"""Plants in indexes with names, splits and labels."""

PLANTS = [
    (
        "gc forgets the indexes that have names",
        "./internal/garbage TestEveryPointerKeepsItsGeneration",
        [("chunkindex/unused.go", "	for _, p := range at {\n		u.Current", "	for _, p := range at[:1] {\n		u.Current")],
    ),
    (
        "a generation counts as replaced when another index is made",
        "./internal/garbage TestEveryPointerKeepsItsGeneration",
        [("chunkindex/owner.go", "all[name] = append(all[name], tenure{generation, o.Modified})", 'all[""] = append(all[""], tenure{generation, o.Modified})')],
    ),
    (
        "gc goes on although the pointer of a named index has moved",
        "./internal/garbage TestAPointerThatMovesEndsTheRemoval",
        [("chunkindex/unused.go", "!slices.EqualFunc(now, u.at, same)", "!slices.EqualFunc(now[:1], u.at[:1], same)")],
    ),
    (
        "URLs reach the generations of another index of the prefix",
        "./chunkindex TestGenerationsBelongToTheirIndex",
        [("chunkindex/owner.go", "if !slices.Contains(names, name) {", "if len(names) > 64 {")],
    ),
    (
        "a generation of the default index becomes that of a named one alone",
        "./chunkindex TestGenerationsBelongToTheirIndex",
        [("chunkindex/owner.go", '			err = put("")\n', "			err = nil\n")],
    ),
    (
        "a shard of two indexes is read twice",
        "./chunkindex TestSeveralIndexesOfOnePrefix",
        [("chunkindex/reuse.go", "if name == b.opt.Name || len(todo) == 0 {", "if name == b.opt.Name || len(todo) >= 0 {")],
    ),
    (
        "a run removes the scans that a run for another index has kept",
        "./chunkindex TestScansOfAnotherRunStay",
        [("chunkindex/reuse.go", 'b.named = b.named || name != ""', "b.named = b.named && len(todo) == 0")],
    ),
    (
        "the name of an index is forgotten where the index lies elsewhere",
        "./internal/location TestAddressesNameAnIndex",
        [("internal/location/location.go", "	at.IndexName = l.IndexName\n", "")],
    ),
]
