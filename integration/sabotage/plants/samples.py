"""Plants in what Python does to single samples: decoders, filters, transforms and their generators."""

PLANTS = [
    (
        "a sample's generator is seeded by its place in its rank's share of the batch",
        "client/python/tests/torch/test_torch_transform.py test_augmentation_repeats",
        [("client/python/millrace/batch.py", "/{self.epoch}/{self.position}", "/{self.epoch}/{self.batch.number}/{self.index}")],
    ),
    (
        "the memory of a large column is not used again",
        "client/python/tests/torch/test_torch_decode.py test_large_columns_lie_in_memory_that_is_used_again",
        [("client/python/millrace/torch/_columns.py", "elif size < LARGE:", "elif size < 1 << 40:")],
    ),
    (
        "all samples draw from one generator",
        "client/python/tests/test_transform.py test_random_draws_repeat_whatever_reads",
        [("client/python/millrace/batch.py", "self._rng = random.Random(self.seed())", "self._rng = random._inst")],
    ),
    (
        "a sample's generator of NumPy's draws anew in each run",
        "client/python/tests/torch/test_torch_transform.py test_augmentation_repeats_after_a_resume",
        [("client/python/millrace/batch.py", "default_rng(self.seed())", "default_rng()")],
    ),
    (
        "augmentation is the same in each epoch",
        "client/python/tests/test_transform.py test_random_draws_repeat_whatever_reads",
        [("client/python/millrace/batch.py", "/{self.epoch}/{self.position}", "/{self.position}")],
    ),
    (
        "a batch of which a filter has left nothing is yielded",
        "client/python/tests/test_transform.py test_filter",
        [("client/python/millrace/epoch.py", "(batch := self.advance()).emptied", "(batch := self.advance()) is None")],
    ),
    (
        "a ledger misses the samples that a filter has refused",
        "client/python/tests/test_transform.py test_filter",
        [("client/python/millrace/_steps.py", "batch.leave_out(lost, refused)", "batch.leave_out(lost.union(refused))")],
    ),
    (
        "a part that a filter has asked for is decoded again",
        "client/python/tests/test_transform.py test_a_filter_decodes_no_part_twice",
        [("client/python/millrace/_steps.py", "sample.batch.keep(sample)", "pass")],
    ),
    (
        "a batch keeps the decoded parts of samples that are transformed already",
        "client/python/tests/test_transform.py test_a_transformed_sample_frees_its_decoded_parts",
        [("client/python/millrace/_steps.py", "kept.append(ref(sample))", "kept.append(lambda sample=sample: sample)")],
    ),
    (
        "a sample at which a transform fails is skipped though nobody said so",
        "client/python/tests/test_transform.py test_a_step_that_fails_names_its_sample",
        [("client/python/millrace/_steps.py", "                if self.on_error is None:\n                    raise\n", "")],
    ),
    (
        "a decoder that returns nothing is taken for one that returns a value",
        "client/python/tests/test_transform.py test_a_decoder_that_returns_nothing",
        [("client/python/millrace/batch.py", "if value is None and name in", "if False and name in")],
    ),
    (
        "a column of arrays that has lost a sample is a list of arrays",
        "client/python/tests/test_numpy.py test_columns_are_arrays",
        [("client/python/millrace/batch.py", "self._decoding.gather(len(keep), (column[i] for i in keep)) if", "[column[i] for i in keep] if")],
    ),
    (
        "bytes that are no image are decoded as one, since a path lies beside them",
        "client/python/tests/test_numpy.py test_images_of_hugging_face",
        [("client/python/millrace/values.py", "return bytes(view) if decoder is None else decoder(how, view)", "return (decoder or _image)(how, view)")],
    ),
    (
        "a loader of torch's counts no batch of which a filter has left nothing",
        "client/python/tests/torch/test_torch_transform.py test_a_filter_and_a_resume",
        [("client/python/millrace/torch/_dataset.py", "reader.advance() if self._counted else next(reader)", "next(reader)")],
    ),
    (
        "a decoder for a part that no sample has is taken in silence where samples are transformed",
        "client/python/tests/test_transform.py test_a_decoder_without_a_part",
        [("client/python/millrace/_steps.py", "        batch.check_decoders()\n", "")],
    ),
    (
        "torch's own draws come from the generator that all threads share",
        "client/python/tests/torch/test_torch_contents.py test_torchs_own_draws_repeat",
        [("client/python/millrace/_rng.py", "if func not in _DRAWING and", "if True or func and")],
    ),
    (
        "torch's functions that take no generator draw from the one that all threads share",
        "client/python/tests/torch/test_torch_contents.py test_torchs_own_draws_repeat",
        [("client/python/millrace/_rng.py", "if func in _LIKE:", "if False:")],
    ),
    (
        "a generator that a transform gives to torch is not taken",
        "client/python/tests/torch/test_torch_contents.py test_a_generator_that_is_given_stays",
        [("client/python/millrace/_rng.py", 'kwargs.get("generator") is not None', "False")],
    ),
    (
        "fields= has one name for pictures, and those of another suffix are left out",
        "./gateway TestMixture_SamplesHaveTheirClasses",
        [("gateway/body/keys.go", "			all[i].Ext = name\n", "			_ = name\n")],
    ),
    (
        "a class that follows the table is sent as a part of the table",
        "./gateway TestShared_ClassesFollowTheTable",
        [("gateway/body/body.go", "p.body.text[:p.body.table]", "p.body.text[:p.body.pieces[0].length]")],
    ),
    (
        "a mixture has the names of its first source's classes",
        "./gateway TestClassFolders_DeclareTheirClasses",
        [("gateway/plans/mixtureindex.go", "				f.Classes = nil\n", "				continue\n")],
    ),
    (
        "a mixture of folders and tars has classes of no length in Arrow",
        "./gateway TestMixture_SamplesHaveTheirClasses",
        [("gateway/plans/mixtureindex.go", "return !slices.ContainsFunc(x.parts, func(p Index) bool { return !p.InClassFolders() })", "return x.parts[0].InClassFolders()")],
    ),
    (
        "a transform that returns nothing makes batches of nothing",
        "client/python/tests/test_contents.py test_a_transform_that_returns_nothing",
        [("client/python/millrace/_steps.py", "all(value is None for value in returned)", "not values")],
    ),
    (
        "samples of a mixture are decoded as another source says",
        "client/python/tests/test_contents.py test_sources_of_other_columns",
        [("client/python/millrace/batch.py", "return self._asked().sources[self._kept[i]] if", "return self._asked().sources[0] if")],
    ),
    (
        "a column of another source of the mixture is a slip",
        "client/python/tests/test_contents.py test_sources_of_other_columns",
        [("client/python/millrace/_selection.py", "replace(one, known=whole.known, ", "replace(one, ")],
    ),
    (
        "a null is a missing part",
        "client/python/tests/test_contents.py test_a_null_is_none",
        [("client/python/millrace/_selection.py", "if nullable or name in found]", "if name in found]")],
    ),
    (
        "a row of nulls has a part that says so",
        "client/python/tests/test_contents.py test_a_null_is_none",
        [("client/python/millrace/_selection.py", " and name not in self._markers]", "]")],
    ),
    (
        "a sample of class folders takes the class of another one",
        "./gateway TestEveryFormShowsTheSamples",
        [("gateway/body/keys.go", "x.ClassOf(s.number)", "x.ClassOf(first)")],
    ),
    (
        "two parts of a sample become one, since their names differ in capitals",
        "client/python/tests/test_contents.py test_capitals_of_suffixes_do_not_count",
        [("client/python/millrace/_layout.py", "if all(len(set(merged[a:b])) == b - a for a, b in pairwise(first)):", "if True:")],
    ),
    (
        "a filter asks in silence for a part that no sample has",
        "client/python/tests/test_contents.py test_names_that_no_sample_has",
        [("client/python/millrace/batch.py", "if why := contents.unknown(str(name)):", 'if why := "":')],
    ),
    (
        "a slip of a function is taken for bad samples, all of them",
        "client/python/tests/test_contents.py test_a_slip_is_not_a_matter_of_samples",
        [("client/python/millrace/epoch.py", "            self.steps.on_error.check(b, self._fails_everywhere)\n", "            pass\n")],
    ),
    (
        "errors that workers meet stay there",
        "client/python/tests/torch/test_torch_contents.py test_errors_of_workers_reach_the_list",
        [("client/python/millrace/torch/_loader.py", "self._dataset.collect(error)", "pass")],
    ),
    (
        "a collate that returns nothing yields None for every batch",
        "client/python/tests/test_transform.py test_a_collate_that_returns_nothing_is_refused",
        [("client/python/millrace/_steps.py", "if value is None and batch.number == 0:", "if False:")],
    ),
    (
        "the exception of a collate does not say which batch it was",
        "client/python/tests/test_transform.py test_a_function_of_a_batch_that_fails_names_the_batch",
        [("client/python/millrace/_steps.py", '_run_whole("collate", self.collate, values, batch, cure)', "self.collate(values)")],
    ),
]
