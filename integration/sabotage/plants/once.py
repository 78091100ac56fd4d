"""Exactly once: an epoch delivers each sample once, over all ranks, resumes and world sizes."""

PLANTS = [
    (
        "shuffle gives the last rank one sample less",
        "./shuffle TestSharesTileEveryBatch",
        [("shuffle/batch.go", "Count: hi - lo}", "Count: hi - lo - min(rank, 1)*min(hi-lo, 1)}")],
    ),
    (
        "shuffle drops the last, shorter batch of an epoch",
        "./shuffle TestSharesTileEveryBatch",
        [("shuffle/batch.go", "b.Tail != Drop && b.Samples%b.BatchSize != 0", "b.Tail == Pad && b.Samples%b.BatchSize != 0")],
    ),
    (
        "shuffle counts the members of a subset's last byte twice",
        "./shuffle TestSubsetPlanDeliversItsMembersOnce",
        [("shuffle/subset.go", "for _, b := range bitmap[:place/8] {", "for _, b := range bitmap[:(place+7)/8] {")],
    ),
    (
        "shuffle restarts the fixed counts of a mixture in each of its epochs",
        "./shuffle TestMixtureTakesEachOwnPositionOnce",
        [("shuffle/mixture.go", "return epoch*(m.samples/m.batch) + batch", "return batch")],
    ),
    (
        "datapath puts a sample of an extract in the place of another",
        "./datapath TestMixtureAsksPeers",
        [("datapath/part.go", "segments[w.seq] = w.data", "segments[len(segments)-1-w.seq] = w.data")],
    ),
    (
        "gateway replaces a quarantined sample by one of another subset",
        "./gateway TestQuarantineOfASubset",
        [("gateway/plans/selection.go", "first = s.Members()\n", "bad, err = d.badSamples(ctx, key.name)\n")],
    ),
    (
        "gateway serves the current generation, whichever the URL names",
        "./integration TestJobsWhileAllChanges",
        [('gateway/catalog/catalog.go', '!k.begins(keyOf(h.entry))', 'generation != "" && h.entry != h.entry')],
    ),
    (
        "gateway closes a generation while jobs read it",
        "./integration TestJobsWhileAllChanges",
        [("gateway/serve.go", "kept.source != given.Source", "kept.source == given.Source")],
    ),
    (
        "Go client misses a duplicate sample",
        "./client TestDeliveriesProveExactlyOnce",
        [("client/deliveries.go", "if _, ok := l.keys[id]; ok {", "if _, ok := l.keys[id]; ok && l.samples == 0 {"),
         ("client/deliveries.go", "if l.bits[word]&bit != 0 {", "if l.bits[word]&bit != 0 && l.samples == 0 {")],
    ),
    (
        "Python client's ledger misses a duplicate sample",
        "client/python/tests/test_read.py test_ranks_share_every_batch",
        [("client/python/millrace/epoch.py", "duplicates + max(0, min(b, next_) - a)", "duplicates")],
    ),
    (
        "Python client pins no generation",
        "client/python/tests/test_faults.py test_another_index_is_another_generation",
        [("client/python/millrace/source.py", 'if k not in SHOWING}', 'if k not in (*SHOWING, "generation")}'),
         ("client/python/millrace/source.py", 'generation=said["generation"]', 'generation=d["parameters"]["generation"]')],
    ),
    (
        "spawned torch workers ignore their parent's rank",
        "client/python/tests/torch/test_torch_distributed.py test_stop_anywhere_and_resume_on_other_ranks",
        [("client/python/millrace/torch/_dataset.py", '"_ranks_of_parent": self.ranks()', '"_ranks_of_parent": None')],
    ),
    (
        "torch loader counts prefetched batches as yielded",
        "client/python/tests/torch/test_torch_state.py test_a_state_says_what_was_yielded_and_not_what_was_read_ahead",
        [("client/python/millrace/torch/_loader.py", "        self._count.take()\n", "        self._count.take()\n        self._count.take()\n")],
    ),
    (
        "torch dataset repeats the samples of a half-read batch after a resume",
        "client/python/tests/torch/test_torch_samples.py test_resume_amid_a_batch",
        [("client/python/millrace/torch/_dataset.py", "step=self._step, skip=skip)", "step=self._step)")],
    ),
    (
        "Python client mixes whole datasets instead of the parts that were named",
        "client/python/tests/torch/test_torch_select.py test_a_mixture_goes_on_with_other_ranks",
        [("client/python/millrace/source.py", "f\"{name}({'&'.join(query)})\" if query else name", "name")],
    ),
    (
        "torch dataset gives Accelerate a rank's share, which it divides again",
        "client/python/tests/frameworks/test_frameworks.py test_accelerate",
        [("client/python/millrace/torch/_dataset.py", "            return processes\n", "            return 1\n")],
    ),
    (
        "JAX loader counts prefetched batches as yielded",
        "client/python/tests/debian13/test_jax.py test_a_state_counts_what_was_yielded",
        [('client/python/millrace/jax.py', '(epoch, (number + 1) *', '(epoch, (number + self._ahead) *')],
    ),
]
