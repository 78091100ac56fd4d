"""Plants in indexes with names, splits and labels."""

PLANTS = [
    (
        "gc forgets the indexes that have names",
        "./cmd/internal/garbage TestEveryPointerKeepsItsGeneration",
        [("chunkindex/unused.go", "	for _, p := range at {\n		u.Current", "	for _, p := range at[:1] {\n		u.Current")],
    ),
    (
        "a generation counts as replaced when another index is made",
        "./cmd/internal/garbage TestEveryPointerKeepsItsGeneration",
        [("chunkindex/owner.go", "all[name] = append(all[name], tenure{generation, o.Modified})", 'all[name[:0]] = append(all[name[:0]], tenure{generation, o.Modified})')],
    ),
    (
        "gc goes on although the pointer of a named index has moved",
        "./cmd/internal/garbage TestAPointerThatMovesEndsTheRemoval",
        [("chunkindex/unused.go", "!slices.EqualFunc(now, u.at, same)", "!slices.EqualFunc(now[:1], u.at[:1], same)")],
    ),
    (
        "URLs reach the generations of another index of the prefix",
        "./chunkindex/build TestGenerationsBelongToTheirIndex",
        [("chunkindex/internal/layout/objects.go", "if !slices.Contains(names, name) {", "if len(names) > 64 {")],
    ),
    (
        "a generation of the default index becomes that of a named one alone",
        "./chunkindex/build TestGenerationsBelongToTheirIndex",
        [("chunkindex/build/publish.go", '			err = put("")\n', "			err = nil\n")],
    ),
    (
        "a shard of two indexes is read twice",
        "./chunkindex/build TestSeveralIndexesOfOnePrefix",
        [("chunkindex/build/reuse.go", "if name == b.opt.Name || len(todo) == 0 {", "if name == b.opt.Name || len(todo) >= 0 {")],
    ),
    (
        "a run removes the scans that a run for another index has kept",
        "./chunkindex/build TestScansOfAnotherRunStay",
        [("chunkindex/build/reuse.go", 'b.named = b.named || name != ""', "b.named = b.named && len(todo) == 0")],
    ),
    (
        "the name of an index is forgotten where the index lies elsewhere",
        "./cmd/internal/location TestAddressesNameAnIndex",
        [("cmd/internal/location/location.go", "	at.IndexName = l.IndexName\n", "")],
    ),
    (
        "a link to a blob of another repository is followed",
        "./internal/objstore/dirstore TestSnapshotsOfACache",
        [("internal/objstore/dirstore/blobs.go", "if filepath.Dir(target) != d.blobs.dir {", 'if filepath.Base(filepath.Dir(target)) != "blobs" {')],
    ),
    (
        "a blob that is a link itself is followed",
        "./internal/objstore/dirstore TestSnapshotsOfACache",
        [("internal/objstore/dirstore/dirstore.go", "return root.blobs.root.Lstat(blob)", "return os.Stat(filepath.Join(root.blobs.dir, blob))")],
    ),
    (
        "a pattern of README.md may lead out of the dataset",
        "./chunkindex/format/hub TestCardsAreRefused",
        [("chunkindex/format/hub/glob.go", 'case "", ".", "..":', 'case "", ".":')],
    ),
    (
        "a star in a pattern crosses slashes",
        "./chunkindex/format/hub TestPatterns",
        [("chunkindex/format/hub/glob.go", 'if pattern[0] == "**" {', 'if strings.Contains(pattern[0], "*") {')],
    ),
    (
        "the split of another configuration is taken too",
        "./chunkindex/build TestRepositoriesSayTheirSplits",
        [("chunkindex/build/splits.go", "ofConfig := r.config == b.opt.Config ||", 'ofConfig := b.opt.Config != "" ||')],
    ),
    (
        "objects that a description leaves out are mixed in",
        "./chunkindex/build TestRepositoriesSayTheirSplits",
        [("chunkindex/build/splits.go", "return splitOf(key) == name && !slices", "return key == name && !slices")],
    ),
    (
        "--split takes the objects of all splits",
        "./chunkindex/build TestSplitsAreChosen",
        [("chunkindex/build/splits.go", "func(o objstore.Object) bool { return !takes(o) }", "func(o objstore.Object) bool { return !takes(o) && false }")],
    ),
    (
        "the last pattern that takes a shard counts",
        "./chunkindex/selection TestSplitByShards",
        [("chunkindex/selection/rule.go", "	return slices.IndexFunc(r.Parts, func(p Part) bool {\n		key := shard", "	return len(r.Parts) - 1 - slices.IndexFunc(r.Parts, func(p Part) bool {\n		key := shard")],
    ),
    (
        "a shard that no pattern takes is of the first subset",
        "./chunkindex/selection TestSplitByShards",
        [("chunkindex/selection/split.go", "		put(part)\n", "		put(max(part, 0))\n"), ("chunkindex/selection/split.go", "		if part < 0 {\n", "		if part < -1 {\n")],
    ),
    (
        "samples of a chunk go with the chunk's first shard",
        "./chunkindex/selection TestSplitByShards",
        [("chunkindex/selection/split.go", "w.data.First()[chunk] + i)", "w.data.First()[chunk] + 0*i)")],
    ),
    (
        "packed labels of other classes are taken for those that were sent before",
        "./chunkindex/pack TestLabelsOfStampedShards",
        [("chunkindex/pack/plan.go", '			fmt.Fprintf(w, "%s\\n", f.text)\n', "")],
    ),
    (
        "labels are numbered in the order of samples",
        "./chunkindex/pack TestLabelsAreTheDirectories",
        [("chunkindex/pack/label.go", "classes := slices.Sorted(maps.Keys(names))", "classes := slices.Sorted(maps.Keys(names))\n	slices.Reverse(classes[1:])")],
    ),
    (
        "folders at different depths are classes",
        "./chunkindex/build TestClassFoldersAreKept",
        [("chunkindex/build/classes.go", "if i > 0 && parent != above ||", "if i < 0 && parent != above ||")],
    ),
    (
        "a new class folder has every picture read again",
        "./chunkindex/build TestANewClassReadsNothingAgain",
        [("chunkindex/build/reuse.go", "return m.ChunkSize == b.opt.ChunkSize &&", "return len(m.Classes) == len(b.classes()) && m.ChunkSize == b.opt.ChunkSize &&")],
    ),
    (
        "an index among class folders breaks ImageFolder, and nobody asked for it",
        "./cmd/millrace TestIndexInTheCache",
        [("chunkindex/build/build.go", "if b.opt.SpareClassFolders && b.report.ClassFolders > 0 &&", "if b.opt.SpareClassFolders && b.report.ClassFolders > 1000 &&")],
    ),
    (
        "the index that lies in the cache is not found there",
        "./cmd/millrace TestIndexInTheCache",
        [("cmd/internal/location/location.go", "if at, ok, _ := l.Apart(); ok && hasState(at.Index.Dir) {", "if at, ok, _ := l.Apart(); ok && hasState(l.Dir) {")],
    ),
    (
        "a directory and a link to it have an index each",
        "./cmd/millrace TestIndexInTheCache",
        [("cmd/internal/location/usercache.go", "sha256.Sum256([]byte(dir))", "sha256.Sum256([]byte(l.Dir + dir))")],
    ),
    (
        "captions beside pictures are passed over as stray texts",
        "./chunkindex/build TestKindsAreNotMixed",
        [("chunkindex/build/classes.go", "slices.ContainsFunc(pictures.Shards, captioned) {", "slices.ContainsFunc(pictures.Shards[:0], captioned) {")],
    ),
    (
        "the folder of an index opens as a dataset",
        "./cmd/millrace TestIndexFolderByMistake",
        [("cmd/internal/location/dataset.go", "if d.Loc.Index == nil && d.Index.Data() == \"\" ||", "if d.Loc.Index == nil ||")],
    ),
    (
        "index forgets the windows of tokens that it made before",
        "./cmd/millrace TestTokensAreAskedFor",
        [("chunkindex/build/reuse.go", "b.opt.Format != \"\" || len(h.Given()) > 0 || !named {", "b.opt.Format != \"\" || len(h.Given()) == 0 || !named {")],
    ),
    (
        "pack takes what does not match",
        "./cmd/millrace TestPackTakesWhatMatches",
        [("chunkindex/pack/walk.go", "if !build.Matches(opt.Match, p) {", "if !build.Matches(opt.Match, p) && p == \"\" {")],
    ),
    (
        "a pattern is taken for a prefix",
        "./cmd/internal/location TestAddressesAsPeopleTypeThem",
        [("cmd/internal/location/location.go", "err == nil || !strings.ContainsAny(address, \"*{\") {", "err == nil || strings.Contains(address, \"\") {")],
    ),
]
