"""Planted bugs of pack, and of indexes that many machines make in parts."""

PLANTS = [
    (
        "pack trusts a finished shard that somebody has overwritten",
        "./chunkindex/pack TestResumeLooksAtWhatIsThere",
        [("chunkindex/pack/write.go", "obj.Size == f.Size && obj.ETag == f.ETag", "obj.Size == f.Size")],
    ),
    (
        "a part loses the scans that no write was worth",
        "./chunkindex/build TestPartsAreJoined",
        [("chunkindex/build/share.go", "len(last) > 0 {", "len(last) > 512 {")],
    ),
    (
        "an index removes the scans that parts of another one have left",
        "./chunkindex/build TestPartsOfIndexesWithNames",
        [("chunkindex/build/share.go", "b.named = true", "b.named = false")],
    ),
    (
        "a part of pack replaces what another machine has stored",
        "./chunkindex/pack TestSecondMachineReplacesNothing",
        [("chunkindex/pack/write.go", "objstore.Condition{IfAbsent: j.opt.Share.Parts > 0}", "objstore.Condition{}")],
    ),
    (
        "a part of pack keeps a shard of older files",
        "./chunkindex/pack TestPartReplacesShardsOfOlderFiles",
        [("chunkindex/pack/write.go", "if hex.EncodeToString(sum.Sum(nil)) == body.sha256 {", "if sum != nil {")],
    ),
    (
        "a join of packed parts packs what they lack by itself",
        "./chunkindex/pack TestMissingPartsAreNamed",
        [("chunkindex/pack/share.go", "if j.begun == 0 ||", "if j.begun >= 0 ||")],
    ),
    (
        "pack does not look whether a file is still the one that it listed",
        "./chunkindex/pack TestFileChangesWhileRead",
        [("chunkindex/pack/write.go", "!os.SameFile(f.info, now) || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())", "now.Size() != f.info.Size()")],
    ),
    (
        "pack takes hidden files",
        "./chunkindex/pack TestHiddenFilesAreLeftOut",
        [("chunkindex/pack/walk.go", "if !opt.Hidden && format.Hidden(p) {", "if !opt.Hidden && format.Hidden(p) && p == \"\" {")],
    ),
    (
        "pack writes its whole state for each shard",
        "./chunkindex/pack TestStatesCostWhatTheyTell",
        [("chunkindex/pack/state.go", "return j.save(ctx, key, shards, objstore.Condition{})", "return j.save(ctx, key, append(slices.Collect(maps.Values(j.stored)), shards...), objstore.Condition{})")],
    ),
]
