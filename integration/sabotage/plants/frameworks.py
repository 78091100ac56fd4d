"""Plants of what frameworks other than torch are given. Their tests run in the root of tools/frameworks.sh."""

TESTS = "client/python/tests/debian13/test_jax.py "
RAY_INDEX = "client/python/tests/debian13/test_ray_index.py "
JAX = "client/python/millrace/jax.py"

PLANTS = [
    (
        "a state of JAX's loader counts the batches that are on their way to the devices",
        TESTS + "test_a_state_counts_what_was_yielded",
        [(JAX, "(epoch, number + 1) if", "(epoch, number + self._ahead) if")],
    ),
    (
        "a state of JAX's loader behind an epoch's last batch is in that epoch",
        TESTS + "test_the_next_batch_is_on_its_way",
        [(JAX, "if number + 1 < batches else self._next", "if number < batches else self._next")],
    ),
    (
        "JAX's loader puts a batch on the devices when it is asked for",
        TESTS + "test_the_next_batch_is_on_its_way",
        [(JAX, "if len(waiting) == self._ahead:", "if waiting:")],
    ),
    (
        "a pass of JAX's loader that was left comes again",
        TESTS + "test_passes",
        [(JAX, "self._next = Place(epoch + 1)", "self._next = Place(epoch)")],
    ),
    (
        "a pass of JAX's loader that is of no account any more moves the next one",
        TESTS + "test_passes",
        [(JAX, "if this == self._pass:", "if this <= self._pass:")],
    ),
    (
        "processes that hold the same rows read different ones",
        TESTS + "test_ranks_are_those_of_the_rows",
        [(JAX, "return first // (end - first), rows // (end - first)", "return jax.process_index(), jax.process_count()")],
    ),
    (
        "a mesh that scatters a process's rows is taken",
        TESTS + "test_ranks_are_those_of_the_rows",
        [(JAX, "or sum(stop - start for start, stop in spans) != end - first", "")],
    ),
    (
        "JAX's loader begins at the batch of a state that was saved within it",
        TESTS + "test_what_does_not_fit_is_refused",
        [(JAX, "        loaded.place.refuse_samples()\n", "")],
    ),
    (
        "JAX's loader closes the client that it was given",
        TESTS + "test_a_closed_loader_lets_go_of_its_own_client",
        [("client/python/millrace/client.py", "if self.client is not self._given and isinstance(self.client, Client):", "if isinstance(self.client, Client):")],
    ),
    (
        "JAX's loader takes the state of another order",
        TESTS + "test_what_does_not_fit_is_refused",
        [("client/python/millrace/_job.py", "        self.check(plan)\n", "")],
    ),
    (
        "text goes to JAX's devices as an array of text",
        TESTS + "test_what_does_not_fit_is_refused",
        [(JAX, 'if stacked.dtype.kind in "OSUMm":', 'if stacked.dtype.kind in "OUMm":')],
    ),
    (
        "a cluster of Ray loses a part whose worker dies",
        RAY_INDEX + "test_index_on_ray",
        [("deploy/ray/index.py", "max_retries=3", "max_retries=0")],
    ),
    (
        "a cluster of Ray loses a part that fails",
        RAY_INDEX + "test_index_on_ray",
        [("deploy/ray/index.py", "retry_exceptions=True", "retry_exceptions=False")],
    ),
]
