"""Planted bugs of subsets, lists of bad samples and mixtures that addresses hold."""

PLANTS = [
    (
        "losses are stored in another form, and those of before are not read",
        "./chunkindex/importance TestGoldenReport",
        [("chunkindex/importance/report.go", "reportMagic  = \"MRLOSS01\"", "reportMagic  = \"MRLOSS02\"")],
    ),
    (
        "quarantines are stored in another form, and those of before are not read",
        "./chunkindex/selection TestGoldenQuarantine",
        [("chunkindex/selection/quarantine.go", "b = binary.LittleEndian.AppendUint64(b, q.Samples)", "b = binary.BigEndian.AppendUint64(b, q.Samples)")],
    ),
    (
        "splits by shards are stored as those of another version",
        "./chunkindex/selection TestGoldenSplits",
        [("chunkindex/selection/layout.go", "shardVersion = 2 ", "shardVersion = 3 ")],
    ),
    (
        "a listed subset has the samples that the list leaves out",
        "./chunkindex/selection TestGoldenSubset",
        [("chunkindex/selection/split.go", "put(1 - int(b[k/8]>>(k%8)&1))", "put(int(b[k/8] >> (k % 8) & 1))")],
    ),
    (
        "a key that several shards have names one of their samples",
        "./chunkindex/selection TestFindKeys_WrongKeys",
        [("chunkindex/selection/listed.go", "f.ambiguous = append(f.ambiguous, string(key))", "f.found[string(key)] = sample")],
    ),
    (
        "keys that no sample has are passed over",
        "./chunkindex/selection TestFindKeys_WrongKeys",
        [("chunkindex/selection/listed.go", "missing = append(missing, key)", "continue")],
    ),
    (
        "states of the release before are refused",
        "client/python/tests/torch/test_torch_state.py test_a_state_that_an_older_release_saved",
        [("client/python/millrace/_job.py", "_FORM = 2 ", "_FORM = 3 ")],
    ),
    (
        "a split in an address leaves its salt out",
        "./gateway TestWrittenSplitIsTheStoredOne",
        [("gateway/plans/selection.go", "steps[i].Name, steps[i].Rule.Salt = step.Name, step.Salt", "steps[i].Name = step.Name")],
    ),
    (
        "places of a step are counted over the whole dataset",
        "./chunkindex/selection TestCutByPlaces",
        [("chunkindex/selection/cut.go", "came := w.passed[i]", "came := w.first[chunk]")],
    ),
    (
        "the first samples of a split read the names of all",
        "./chunkindex/selection TestCutReadsNoMoreNamesThanItNeeds",
        [("chunkindex/selection/cut.go", "if w.over() {", "if false {")],
    ),
    (
        "one split has several addresses",
        "./gateway TestWrittenSelectionsHaveOneAddress",
        [("gateway/address/subset.go", "parts[i].Size /= divisor", "parts[i].Size /= min(divisor, 1)")],
    ),
    (
        "a split of a split goes by the same hash",
        "./gateway/address TestSubsetRefuses",
        [("gateway/address/subset.go", "other.Parts != nil && other.Salt == step.Salt", "false")],
    ),
    (
        "the last run of a list in an address is left out",
        "./gateway TestWrittenQuarantine",
        [("gateway/plans/selection.go", "\tfor _, run := range runs {", "\tfor _, run := range runs[:len(runs)-1] {")],
    ),
    (
        "a mixture of parts mixes whole datasets",
        "./gateway TestWrittenMixtureOfParts",
        [("gateway/plans/mixtureorder.go", "if !c.virtual() && c.quarantine == nil {", "if true {")],
    ),
    (
        "a mixture in an address wants no right on its last source",
        "./gateway TestWrittenMixtureWantsReadOnItsSources",
        [("gateway/mixtures.go", "!slices.ContainsFunc(m.Sources, func(s address.Source) bool {\n\t\treturn !g.may(p", "!slices.ContainsFunc(m.Sources[:len(m.Sources)-1], func(s address.Source) bool {\n\t\treturn !g.may(p")],
    ),
    (
        "a mixture in an address forgets which generations the URL names",
        "./gateway TestWrittenMixtureOfOlderGenerations",
        [("gateway/mixtures.go", "g.datasets.Acquire(x.r.Context(), s.Dataset, generations[i])", 'g.datasets.Acquire(x.r.Context(), s.Dataset, "")')],
    ),
    (
        "two mixtures of the same datasets have one ETag",
        "./gateway TestWrittenMixtureHasOneAddress",
        [("gateway/address/batch.go", 'what += " of " + b.Dataset', "_ = b.Dataset")],
    ),
    (
        "every mixture in an address is a label of its own",
        "./gateway TestWrittenMixtureHasOneAddress",
        [("gateway/metrics.go", 'r.Dataset = "mix:"', "_ = r.Dataset")],
    ),
    (
        "a mixture is kept when its source has another generation",
        "./gateway TestWrittenMixtureOfOlderGenerations",
        [("gateway/mixtures.go", "d.Name() == name && slices.Equal(d.parts, parts)", "d.Name() == name")],
    ),
    (
        "a split of a split from Python goes by the same hash",
        "client/python/tests/test_select.py test_a_split",
        [("client/python/millrace/source.py", "salt or (str(len(before) + 1) if before else \"\")", 'salt or ("same" if before else "")'),
         ("client/python/millrace/source.py", "f\"{rule}:{name}\" + (f\":{salt}\" if salt else \"\")", "f\"{rule}:{name}\"")],
    ),
    (
        "fractions that leave samples out take them all",
        "client/python/tests/test_select.py test_fractions",
        [("client/python/millrace/_selection.py", "if total < 1 - Fraction(1, _FINEST):", "if total < 0:")],
    ),
    (
        "a client that names bad samples reads another generation",
        "client/python/tests/test_select.py test_bad_samples_belong_to_a_generation",
        [("client/python/millrace/source.py", 'generation=",".join(read) if pinned else "")', 'generation="")')],
    ),
    (
        "a gateway that was killed comes back with one dataset of a mixture",
        "client/python/tests/test_select.py test_without_a_server",
        [("client/python/millrace/source.py", "others=tuple(kept[1:])", "others=()")],
    ),
    (
        "a mixture of parts from Python mixes whole datasets",
        "client/python/tests/torch/test_torch_select.py test_a_mixture_goes_on_with_other_ranks",
        [("client/python/millrace/source.py", "f\"{name}({'&'.join(query)})\" if query else name", "name")],
    ),
    (
        "a gateway keeps every mixture that an address has defined",
        "./gateway TestWrittenSelectionsHoldLittle",
        [("gateway/mixtures.go", "if len(w.entries) > maxCachedMixtures {", "if false {")],
    ),
    (
        "a gateway keeps many subsets whatever they take",
        "./gateway TestWrittenSelectionsHoldLittle",
        [("gateway/plans/objects.go", "left < 0 && n >= maxIdle", "left < -1<<40")],
    ),
    (
        "a part of the default dataset is of whichever that is",
        "client/python/tests/torch/test_torch_select.py test_parts_of_the_default_dataset",
        [("client/python/millrace/source.py", 'dataset = self.dataset or str(self.describe()["name"])', "dataset = self.dataset")],
    ),
    (
        "samples are left out at the places that they have in the whole dataset",
        "client/python/tests/test_select.py test_samples_that_are_left_out",
        [("client/python/millrace/source.py", "made._numbers_of(step, generation, subset, again)", 'made._numbers_of(step, generation, "", again)')],
    ),
    (
        "samples that are left out in two steps are the last ones",
        "client/python/tests/test_select.py test_samples_that_are_left_out",
        [("client/python/millrace/source.py", "steps, named = steps[:-1], (*before, *named)", "steps = steps[:-1]")],
    ),
    (
        "bad samples keep their numbers in another generation",
        "client/python/tests/test_select.py test_bad_samples_belong_to_a_generation",
        [("client/python/millrace/source.py", "return self._reading(self.dataset, self.selection, generation, again=True)",
          "return self._reading(self.dataset, replace(self.selection, replaced=self.selection.quarantine), generation, again=True)")],
    ),
    (
        "a sample that another generation does not have stops a client",
        "client/python/tests/test_select.py test_bad_samples_belong_to_a_generation",
        [("client/python/millrace/source.py", "if not again or isinstance(e, GenerationGone):", "if True:")],
    ),
    (
        "a mixture reads the newest generation of a source with another one",
        "client/python/tests/test_select.py test_bad_samples_belong_to_a_generation",
        [("client/python/millrace/source.py", "[part.generation for _, part, _ in chosen.sources]", "[None] * len(chosen.sources)")],
    ),
    (
        "a list that is not there is taken until it is used",
        "client/python/tests/test_select.py test_a_stored_list_of_bad_samples",
        [("client/python/millrace/source.py", "        if stored:  #", "        if False:  #")],
    ),
    (
        "sources of other parts are mixed without a word",
        "client/python/tests/test_select.py test_sources_of_other_parts",
        [("client/python/millrace/source.py", "if len({names for _, names in parts}) > 1:", "if False:")],
    ),
    (
        "an error of a mixture does not say the source",
        "client/python/tests/test_select.py test_a_mixture_says_of_which_source_a_bad_sample_is",
        [("client/python/millrace/batch.py", "if (opened := self._decoding.mixed) is not None:", "if False:")],
    ),
    (
        "a checkpoint cannot go on without its bad samples",
        "client/python/tests/torch/test_torch_select.py test_a_checkpoint_goes_on_without_bad_samples_although_the_data_have_grown",
        [("client/python/millrace/_job.py", "return bad != bad_before and rest == rest_before", "return False")],
    ),
    (
        "a checkpoint goes on in any order where bad samples were added",
        "client/python/tests/torch/test_torch_select.py test_a_checkpoint_goes_on_without_bad_samples_although_the_data_have_grown",
        [("client/python/millrace/_job.py", "return bad != bad_before and rest == rest_before", "return bad != bad_before")],
    ),
    (
        "a stored list of bad samples keeps its numbers in another generation",
        "./chunkindex/selection TestQuarantineIsCarriedOver",
        [("chunkindex/selection/quarantine.go", "if !own {", "if false {")],
    ),
    (
        "a gateway says of another generation what a list has in its own",
        "./gateway TestQuarantineOfAnOlderGeneration",
        [("gateway/plans/selection.go", "bad, err := list.Numbers(ctx, d.Index)", "bad, err := []uint64{list.Bad[0].Number}, error(nil)")],
    ),
    (
        "a subset of many runs takes more memory than was reserved",
        "./chunkindex/selection TestCutOfManyRunsTakesWhatItSays",
        [("chunkindex/selection/cut.go", "2*int64(runs)*largest", "largest")],
    ),
    (
        "peers refuse the subsets that addresses may have",
        "./cluster/peer TestWhatIsWrittenIsRead",
        [("cluster/peer/codec.go", "checkTexts(maxSubset, r.Params.Subset)", "checkTexts(maxNameBytes, r.Params.Subset)")],
    ),
]
