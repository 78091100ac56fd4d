"""Plants in what Python does to single samples: decoders, filters, transforms and their generators."""

PLANTS = [
    (
        "a sample's generator is seeded by its place in its rank's share of the batch",
        "client/python/tests/torch/test_torch_transform.py test_augmentation_repeats",
        [("client/python/millrace/batch.py", "/{self.epoch}/{self.position}", "/{self.epoch}/{self.batch.number}/{self.index}")],
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
        [("client/python/millrace/batch.py", "self._source.gather(len(keep), (column[i] for i in keep)) if", "[column[i] for i in keep] if")],
    ),
    (
        "bytes that are no image are decoded as one, since a path lies beside them",
        "client/python/tests/test_numpy.py test_images_of_hugging_face",
        [("client/python/millrace/decode.py", "return bytes(view) if decoder is None else decoder(how, view)", "return (decoder or _image)(how, view)")],
    ),
    (
        "a loader of torch's counts no batch of which a filter has left nothing",
        "client/python/tests/torch/test_torch_transform.py test_a_filter_and_a_resume",
        [("client/python/millrace/_reading.py", "reader.advance() if self._counted else next(reader)", "next(reader)")],
    ),
    (
        "a decoder for a part that no sample has is taken in silence where samples are transformed",
        "client/python/tests/test_transform.py test_a_decoder_without_a_part",
        [("client/python/millrace/_steps.py", "        batch.check_decoders()\n", "")],
    ),
]
