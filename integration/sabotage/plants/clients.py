"""Planted bugs of the clients."""

PLANTS = [
    (
        "client in Go takes a gateway that starts for one that is ready",
        "./client TestGatewayThatIsNotReadyIsAskedLast",
        [("client/latency.go", "if resp.StatusCode == http.StatusServiceUnavailable {", "if resp.StatusCode == http.StatusTeapot {")],
    ),
    (
        "client in Python takes a gateway that starts for one that is ready",
        "client/python/tests/test_gateways.py test_one_that_starts_is_asked_last",
        [("client/python/millrace/_http/wire.py", "return Answer(a, sock).status != 503", "return Answer(a, sock).status != 418")],
    ),
    (
        "the Go client asks the environment's proxy for a Unix socket",
        "./client TestUnixSocket",
        [("client/names.go", '\t\tasIs[0].host = "localhost"\n', "\t\tasIs[0].host = \"\"\n")],
    ),
    (
        "the Go client's errors name a host in place of a socket",
        "./client TestUnixSocket",
        [("client/gateways.go", 'return socketPrefix + path', 'return g.base.String()')],
    ),
    (
        "the address of a socket is taken for a dataset's",
        "./cmd/millrace TestCommandsReachAUnixSocket",
        [("cmd/internal/location/gateway.go", ' || hasScheme(arg) || hostPort(arg)', ' || hostPort(arg)')],
    ),
    (
        "samples that a sampler asks for together are asked for one by one",
        "client/python/tests/torch/test_torch_map.py test_samples_come_together",
        [("client/python/millrace/torch/_map.py", "pieces = max(min(self._threads, count // _LEAST), -(-count // MOST_NAMED))", "pieces = count")],
    ),
    (
        "threads return the samples of a sampler in another order",
        "client/python/tests/torch/test_torch_map.py test_samples_come_together",
        [("client/python/millrace/torch/_map.py", "cut = [at[i * count // pieces : (i + 1) * count // pieces] for i in range(pieces)]", "cut = [at[i::pieces] for i in range(pieces)]")],
    ),
    (
        "samples by number draw at random by their place in the request",
        "client/python/tests/torch/test_torch_map.py test_numbers_are_positions_of_an_order",
        [("client/python/millrace/epoch.py", ", positions=lambda _: positions)", ", positions=lambda _: range(len(positions)))")],
    ),
    (
        "a sample by number that does not decode has no name",
        "client/python/tests/torch/test_torch_map.py test_samples_that_cannot_be_decoded",
        [("client/python/millrace/epoch.py", "manifest=partial(self._read_manifest, path, asked), ", "")],
    ),
    (
        "Python reads pickles that nobody has allowed",
        "client/python/tests/test_decode.py test_other_fields",
        [("client/python/millrace/values.py", "    if not how.allow_pickle:\n", "    if how.allow_pickle is None:\n")],
    ),
    (
        "a sample that is left out of a batch leaves its key there",
        "client/python/tests/test_decode.py test_samples_are_left_out",
        [("client/python/millrace/batch.py", "return _Keys(self._pick(self._all_keys()))", "return _Keys(self._all_keys())")],
    ),
    (
        "Python's ledger takes a sample for padding when another one was left out",
        "client/python/tests/test_decode.py test_padding_that_is_left_out",
        [("client/python/millrace/batch.py", "return len(self._kept) - bisect_left(self._kept, self._head.samples - self._head.padded)", "return self._head.padded")],
    ),
    (
        "an image of a few bytes takes as much memory as its width and height claim",
        "client/python/tests/test_decode.py test_other_fields",
        [("client/python/millrace/values.py", "if width * height > 8 * len(pixels):", "if False:")],
    ),
    (
        "Python lacks a library, and every sample is left out",
        "client/python/tests/test_decode.py test_without_libraries",
        [("client/python/millrace/batch.py", "        except CannotDecode as e:\n            raise CannotDecode(f", "        except CannotDecode as e:\n            raise DecodeError(f")],
    ),
    (
        "Python finds out only while it reads that a form has no samples to filter",
        "client/python/tests/test_read.py test_steps_of_samples_want_no_form",
        [("client/python/millrace/source.py", 'o.keys() & {"filter", "transform", "collate"}', 'o.keys() & {"transform", "collate"}')],
    ),
    (
        "Python takes a framed table without parts for one that has them",
        "client/python/tests/test_parts.py test_a_table_without_parts_is_refused",
        [("client/python/millrace/_layout.py", "if not flags & PARTS:", "if not flags:")],
    ),
    (
        "Python hands out samples of a batch that cannot be cut",
        "client/python/tests/test_read.py test_a_form_has_no_samples",
        [("client/python/millrace/batch.py", "        _ = self.table  # raises for a batch that has none\n", "")],
    ),
    (
        "the client looks for samples of a tar without what pads its members",
        "./client TestSamplesOfEveryFraming",
        [("client/places.go", "padding = min(-s.Length&(tarBlock-1), int64(len(left))-head-s.Length)", "padding = 0")],
    ),
    (
        "client does not compare the checksum",
        "./client TestFaultsOfOneTransferAreHidden",
        [("client/transfer.go", "; got != b.CRC {", "; got != got {")],
    ),
    (
        "client's ledger does not see a sample come twice",
        "./client TestLedgerProvesExactlyOnce",
        [("client/ledger.go", "if _, ok := l.keys[id]; ok {", "if _, ok := l.keys[id]; ok && l.samples == 0 {"),
         ("client/ledger.go", "if p[word]&bit != 0 {", "if p[word]&bit != 0 && l.samples == 0 {")],
    ),
    (
        "client reads a body that broke from its beginning",
        "./client TestBrokenBodyGoesOnElsewhere",
        [("client/transfer.go", "if len(t.data) == 0 {", "if len(t.data) >= 0 {")],
    ),
    (
        "client asks a gateway again at once that has just failed",
        "./client TestGatewayThatFailedRestsAndComesBack",
        [("client/gateways.go", "g.until = now.Add(max(cooldown", "g.faults, g.until = 0, now.Add(-max(cooldown")],
    ),
    (
        "client takes a gateway back for answering small questions",
        "./client TestGatewayThatOnlySeemsReadyIsLeft",
        [("client/latency.go", "if !time.Now().Before(g.until) {", "if g != nil {")],
    ),
    (
        "a gateway without an SRV record moves those behind it to other ranks",
        "./client TestRecordMissingKeepsIndexes",
        [("client/srv.go", "\t\ttargets = withMissing(targets)\n", "\t\t_ = withMissing(targets)\n")],
    ),
    (
        "the gateways of a pattern are numbered without their zeros",
        "./client TestFormsOfPatterns",
        [("client/pattern.go", "len(digits), n, address", "1, n, address")],
    ),
    (
        "the advice about homes comes at every epoch",
        "./client TestAdviceAboutHomesComesOnce",
        [("client/home.go", "c.fleet.advised.Do(func() {", "new(sync.Once).Do(func() {"),
         ("client/home.go", '\t"strings"\n', '\t"strings"\n\t"sync"\n')],
    ),
    (
        "the Python client moves ranks when a gateway has no SRV record",
        "client/python/tests/test_names.py test_ranks_find_their_gateways_by_srv_records",
        [("client/python/millrace/_http/fleet.py", "if not (fill and alike and min(known) >= 0 and max(known) < MOST_GATEWAYS):", "if targets:")],
    ),
    (
        "client waits for a name server while gateways answer",
        "./client TestNameServerThatHangsHoldsNobodyUp",
        [("client/names.go", "time.AfterFunc(renewTime-", "time.AfterFunc(lookupTime-")],
    ),
    (
        "the Python client takes a body that ends early",
        "client/python/tests/test_faults.py test_bodies_are_cut",
        [("client/python/millrace/_http/gateways.py", 'raise ConnectionError("the connection was closed")', "break")],
    ),
    (
        "nulls in a list are read as values",
        "client/python/tests/test_values.py test_the_example_of_the_page",
        [("client/python/millrace/values.py", "None if nulls[i >> 3] >> (i & 7) & 1 else self.element(element)", "self.element(element)")],
    ),
    (
        "a struct inside a null struct is read",
        "client/python/tests/test_values.py test_nested",
        [("client/python/millrace/values.py", "nulls, null, present)", "nulls, False, present)")],
    ),
    (
        "fields of one size have a length before them",
        "client/python/tests/test_values.py test_nested",
        [("client/python/millrace/values.py", 'if f["encoding"] == "raw" else 0) or self.number()', 'if f["encoding"] == "json" else 0) or self.number()')],
    ),
    (
        "decimals in bytes are read with the lowest byte first",
        "client/python/tests/test_values.py test_decimals_of_parquet",
        [("client/python/millrace/values.py", 'int(decimal[1]), "big")', 'int(decimal[1]), "little")')],
    ),
    (
        "bytes after a list are passed over",
        "client/python/tests/test_values.py test_nested",
        [("client/python/millrace/values.py", "        nested.end()\n", "")],
    ),
    (
        "the last number of a list is read from as many bytes as there are",
        "client/python/tests/test_values.py test_types",
        [("client/python/millrace/values.py", "if not size or len(view) % size:", "if not size:")],
    ),
    (
        "the Python client goes on with a body of whatever ETag",
        "client/python/tests/test_hostile.py test_the_rest_of_other_bytes",
        [("client/python/millrace/_http/gateways.py", '-", "If-Range": self._head.etag}', '-"}')],
    ),
    (
        "the Python client reads into a buffer that somebody looks at",
        "client/python/tests/test_pool.py test_buffers",
        [("client/python/millrace/_process.py", "[b for b in self._known if is_free(b)]", "list(self._known)")],
    ),
    (
        "the Python client's buffers are not bounded in bytes",
        "client/python/tests/test_pool.py test_buffers_hold_little_more_than_what_is_looked_at",
        [("client/python/millrace/_process.py", "if not any(other is f for f in free)][", "][")],
    ),
    (
        "a reader of the Python client begins with new buffers where the one before has left some",
        "client/python/tests/test_read.py test_the_next_reader_takes_buffers_over",
        [("client/python/millrace/_http/gateways.py", "idle.pop() if idle else Buffers()", "Buffers()")],
    ),
    (
        "a client that reads nothing holds large buffers",
        "client/python/tests/test_read.py test_the_next_reader_takes_buffers_over",
        [("client/python/millrace/_http/gateways.py", "if buffers.held <= IDLE_BUFFERS:", "if buffers.held:")],
    ),
    (
        "the Python client waits for a whole body without end",
        "client/python/tests/test_ends.py test_a_body_that_trickles_comes_to_its_end",
        [("client/python/millrace/_http/wire.py", "for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):", "for way in ():")],
    ),
    (
        "the Python client counts the time in which its process stood still",
        "client/python/tests/test_faults.py test_a_job_is_suspended",
        [("client/python/millrace/_http/wire.py", "min(now - self._seen, step + STILL)", "now - self._seen")],
    ),
    (
        "the Python client counts the time in which its process stood still before it asked again",
        "client/python/tests/test_faults.py test_a_job_is_suspended",
        [("client/python/millrace/_http/gateways.py", "while self._watch.seconds() < until", "while self._watch.seconds(1e9) < until")],
    ),
    (
        "the Python client takes another library's finalizer for a slow search for a name",
        "client/python/tests/test_faults.py test_another_librarys_finalizer_takes_long",
        [("client/python/millrace/_http/gateways.py", "LOOKUP_TIME if self._here.fleet.names else TICK", "LOOKUP_TIME")],
    ),
    (
        "the Python client takes another library's finalizer for a slow search for an address's number",
        "client/python/tests/test_faults.py test_another_librarys_finalizer_takes_long",
        [("client/python/millrace/_http/wire.py", "LOOKUP_TIME if at.has_name else TICK", "LOOKUP_TIME")],
    ),
    (
        "the Python client takes a step of waiting for the end of the body",
        "client/python/tests/test_ends.py test_what_comes_in_many_steps",
        [("client/python/millrace/_http/wire.py", "            except _STEP_OVER:\n                continue\n            self.note_sign(True)\n",
          "            except _STEP_OVER:\n                return 0\n            self.note_sign(True)\n")],
    ),
    (
        "the Python client waits in silence for a gateway that accepts and says nothing",
        "client/python/tests/test_waits.py test_a_gateway_that_says_nothing_is_told_after_two_seconds",
        [("client/python/millrace/_http/gateways.py", "        self._tell(f\"{a.gateway.name} says nothing\")\n", "")],
    ),
    (
        "a thread of the Python client's that asks for a sign of life is not called off",
        "client/python/tests/test_ends.py test_asking_for_a_sign_of_life_holds_nothing_up",
        [("client/python/millrace/_http/gateways.py", "a.ends - a.watch.seconds()), self._over)", "a.ends - a.watch.seconds()), lambda: False)")],
    ),
    (
        "the first address of a name that does not answer takes the Python client's time for all of them",
        "client/python/tests/test_ends.py test_an_address_that_does_not_answer_is_passed_over",
        [("client/python/millrace/_http/wire.py", "with contextlib.suppress(OSError), self.within(DIAL_TIME):", "with contextlib.suppress(OSError):")],
    ),
    (
        "the Python client takes the length of a chunk for a part of the body",
        "client/python/tests/test_ends.py test_what_is_taken_in_many_steps",
        [("client/python/millrace/_http/wire.py", "            yield size\n            self._until(b\"\\r\\n\")\n", "            yield size\n")],
    ),
    (
        "a gateway that sends a byte now and then holds the Python client for ever",
        "client/python/tests/test_ends.py test_a_body_that_trickles_comes_to_its_end",
        [("client/python/millrace/_http/wire.py", "            self.go_on()  # after what has come too: a gateway may send a byte now and then\n", "")],
    ),
    (
        "the Python client wakes no thread when a length that came makes room",
        "client/python/tests/test_pool.py test_all_threads_wake_when_there_is_room_for_all",
        [("client/python/millrace/_pool.py", "self._reserve(slot, size)\n            self._wake_another()", "self._reserve(slot, size)")],
    ),
    (
        "of the Python client's threads only one wakes up when there is room for several",
        "client/python/tests/test_pool.py test_all_threads_wake_when_there_is_room_for_all",
        [("client/python/millrace/_pool.py", "if self._choose() is not None:", "if False:")],
    ),
    (
        "the Python client takes an on_error's StopIteration for the end of the epoch",
        "client/python/tests/test_hostile.py test_an_on_error_that_stops",
        [("client/python/millrace/_pool.py", "if isinstance(slot.error, StopIteration):", "if False:")],
    ),
    (
        "the Python client takes an interim answer for the answer",
        "client/python/tests/test_hostile.py test_interim_answers",
        [("client/python/millrace/_http/wire.py", "if not 100 <= self.status < 200:", "if True:")],
    ),
    (
        "the Python client's deadline hides the fault that came before it",
        "client/python/tests/test_hostile.py test_interim_answers",
        [("client/python/millrace/_http/gateways.py", "(isinstance(e, ShortBody) and self._watch.seconds() >= self._end())", "False")],
    ),
    (
        "the Python client pins no generation",
        "client/python/tests/test_faults.py test_another_index_is_another_generation",
        [("client/python/millrace/source.py", 'if k not in ("format", "fields", "table")}', 'if k not in ("format", "fields", "table", "generation")}'),
         ("client/python/millrace/source.py", 'generation=said["generation"]', 'generation=d["parameters"]["generation"]')],
    ),
    (
        "the Python client's ledger overlooks what came twice",
        "client/python/tests/test_read.py test_ranks_share_every_batch",
        [("client/python/millrace/proof/__init__.py", "self._twice.append((a, min(b, end)))", "pass")],
    ),
    (
        "the Python client's threads wait for a decoder while nothing is fetched",
        "client/python/tests/test_pool.py test_all_threads_but_one_decode_while_decoding_is_slow",
        [("client/python/millrace/_pool.py", "if can_fetch and not self._now.fetching:", "if can_fetch and not self._now.fetching and not self._slots:")],
    ),
    (
        "torch's workers count on from the batch that they have yielded, as if each were alone",
        "client/python/tests/torch/test_torch_state.py test_stateful_data_loader",
        [("client/python/millrace/torch/_dataset.py", "else Place(epoch, batch + self._step)", "else Place(epoch, batch + 1)")],
    ),
    (
        "torch's spawned workers do not know their parent's rank",
        "client/python/tests/torch/test_torch_distributed.py test_stop_anywhere_and_resume_on_other_ranks",
        [("client/python/millrace/torch/_dataset.py", '"_ranks_of_parent": self.ranks()', '"_ranks_of_parent": None')],
    ),
    (
        "torch's loader says that what it read ahead was yielded",
        "client/python/tests/torch/test_torch_state.py test_a_state_says_what_was_yielded_and_not_what_was_read_ahead",
        [("client/python/millrace/torch/_loader.py", "self._count.place = place._replace(batch=place.batch + 1)", "self._count.place = place._replace(batch=place.batch + 2)")],
    ),
    (
        "a checkpoint without a state begins at the beginning",
        "client/python/tests/torch/test_torch_state.py test_what_is_no_state_is_refused_with_the_cure",
        [("client/python/millrace/torch/_dataset.py", "        if torch_data.get_worker_info() is not None:\n            return\n        before =", "        if torch_data.get_worker_info() is not None or not state:\n            return\n        before =")],
    ),
    (
        "a state is held to the dataset's name",
        "client/python/tests/torch/test_torch_state.py test_a_state_goes_on_with_a_copy_of_the_data",
        [("client/python/millrace/_job.py", 'return "generation", "batch_size"', 'return "dataset", "generation", "batch_size"')],
    ),
    (
        "the batch size may change in the midst of an epoch",
        "client/python/tests/torch/test_torch_state.py test_a_state_of_another_order_is_refused",
        [("client/python/millrace/_job.py", 'if name == "batch_size" and not begun:', 'if name == "batch_size":')],
    ),
    (
        "the batch size may not change between two epochs",
        "client/python/tests/torch/test_torch_state.py test_between_two_epochs_the_batch_size_may_change",
        [("client/python/millrace/_job.py", 'if name == "batch_size" and not begun:', 'if name == "batch_size" and begun:')],
    ),
    (
        "a state may be of a batch beyond the end",
        "client/python/tests/torch/test_torch_state.py test_a_state_beyond_the_end_is_refused",
        [("client/python/millrace/_job.py", "if self.place.batch > plan.batches:", "if False:")],
    ),
    (
        "torch's dataset goes on from a state of another order",
        "client/python/tests/torch/test_torch_state.py test_a_state_of_another_order_is_refused",
        [("client/python/millrace/torch/_dataset.py", "            self._loaded.check(epoch.plan)\n", "")],
    ),
    (
        "a value that no parameter can have goes to the gateway",
        "client/python/tests/test_parameters.py test_slips_are_refused_before_a_gateway_is_asked",
        [("client/python/millrace/_parameters.py", "name in needed) and not rule.fits(value)", "name in needed) and rule.fits(value)")],
    ),
    (
        "several parts of a dataset are taken for addresses",
        "client/python/tests/test_parameters.py test_what_is_no_place_is_refused",
        [("client/python/millrace/client.py", "if isinstance(gateways, Mapping) or any(", "if any(")],
    ),
    (
        "torch's options of a loader are not known to its check of names",
        "client/python/tests/torch/test_torch_habits.py test_slips_of_a_loader_and_of_set_epoch",
        [("client/python/millrace/_parameters.py", "[*own, *passed]", "[*own]")],
    ),
    (
        "None is sent in place of a default",
        "client/python/tests/test_parameters.py test_none_is_the_default_and_numbers_may_be_numpys",
        [("client/python/millrace/_parameters.py", "if value is not None and name not in GROUPS}", "if name not in GROUPS}")],
    ),
    (
        "torch's dataset leaves it to the first batch to find out what the gateway refuses",
        "client/python/tests/torch/test_torch_habits.py test_what_cannot_be_read_is_refused_at_construction",
        [("client/python/millrace/torch/_dataset.py", "if self._alone is None:\n            self.epoch()", "if False:\n            self.epoch()")],
    ),
    (
        "ranks get shares of different lengths, and nothing is said",
        "client/python/tests/torch/test_torch_habits.py test_shares_of_different_lengths_are_told_once",
        [("client/python/millrace/_job.py", "if size % ranks:", "if size < ranks:")],
    ),
    (
        "a worker of torch's that was killed is a connection that was reset",
        "client/python/tests/torch/test_torch_loader.py test_a_worker_that_is_killed_while_its_tensors_are_asked_for",
        [("client/python/millrace/torch/_loader.py", "                    self._report_killed()", "                    pass")],
    ),
    (
        "data that were indexed again are told as other data",
        "client/python/tests/torch/test_torch_state.py test_data_that_were_indexed_again_are_named",
        [("client/python/millrace/_job.py", "same = dataset == self.dataset", "same = False")],
    ),
    (
        "what millrace.open returns does not say how many samples there are",
        "client/python/tests/test_parameters.py test_what_open_returns_says_where_the_data_are",
        [("client/python/millrace/client.py", "        client.describe()\n", "")],
    ),
    (
        "torch's loader leaves a failed pass's workers to the garbage collector",
        "client/python/tests/torch/test_torch_loader.py test_a_decoder_that_fails_in_a_worker",
        [("client/python/millrace/torch/_loader.py", "        if end is not None:\n            end()\n", "")],
    ),
    (
        "a thread of the Python client's imports what is not there, again and again",
        "client/python/tests/test_forks.py test_no_thread_imports",
        [("client/python/millrace/_http/gateways.py", "        self._check = checksum(",
          "        try:\n            __import__('crc32c')\n        except ImportError:\n            pass\n        self._check = checksum(")],
    ),
    (
        "a fork does not wait for a TLS handshake or a ledger's change",
        "client/python/tests/test_forks.py test_a_fork_waits_for_what_a_child_must_not_find_half_done",
        [("client/python/millrace/_process.py", "before=_begin_fork, after_in_parent=no_fork.release, ", "")],
    ),
    (
        "the Python client decodes ahead as much as it reads ahead",
        "client/python/tests/torch/test_torch_loader.py test_what_is_decoded_ahead_is_bounded",
        [("client/python/millrace/_pool.py", ">= self._decoded_most", ">= 1 << 30")],
    ),
    (
        "a worker of torch's begins a pass where it thinks that it should",
        "client/python/tests/torch/test_torch_habits.py test_passes_of_workers_that_begin_at_the_same_time",
        [("client/python/millrace/torch/_places.py", "(found := given or self._left(name, at)) is None", "(found := given or self.next) is None")],
    ),
    (
        "a pass over a torch dataset that was left comes again",
        "client/python/tests/torch/test_torch_habits.py test_plain_passes",
        [("client/python/millrace/torch/_places.py", "            self._note(_EPOCH, *place, 1)\n", "            self._note(_EPOCH, *place, 0)\n")],
    ),
    (
        "an epoch that is set again after a pass of it was left is not read again",
        "client/python/tests/torch/test_torch_habits.py test_the_next_pass_is_of_the_next_epoch",
        [("client/python/millrace/torch/_places.py", "            self._note(_BATCH, 0, 0, 0, 0, -1)\n", "            pass\n")],
    ),
    (
        "samples that were yielded of a batch come again after a resume",
        "client/python/tests/torch/test_torch_samples.py test_resume_amid_a_batch",
        [("client/python/millrace/torch/_dataset.py", "(list(value) if self._samples else [value])[done:][::-1]", "(list(value) if self._samples else [value])[::-1]")],
    ),
    (
        "each worker of torch's leaves out the samples that its parent has yielded of one batch",
        "client/python/tests/torch/test_torch_samples.py test_workers_begin_amid_a_batch",
        [("client/python/millrace/torch/_dataset.py", "else Place(place.epoch, place.batch + self._worker)", "else place._replace(batch=place.batch + self._worker)")],
    ),
    (
        "torch's loader does not count a batch of which a filter has left nothing",
        "client/python/tests/torch/test_torch_samples.py test_filtered_batches_are_counted",
        [("client/python/millrace/torch/_dataset.py", "reader.advance() if self._counted else next(reader)", "next(reader)")],
    ),
    (
        "a torch dataset gives a rank's share to Accelerate, which shares it out again",
        "client/python/tests/frameworks/test_frameworks.py test_accelerate",
        [("client/python/millrace/torch/_dataset.py", "            return processes\n", "            return 1\n")],
    ),
    (
        "spawned workers do not know that their parent's loader shares samples out",
        "client/python/tests/torch/test_torch_samples.py test_who_shares_out_gets_all_samples",
        [("client/python/millrace/torch/_dataset.py", "self._processes() if get_spawning_popen() is not None else 1", "1")],
    ),
    (
        "a torch dataset goes back to epoch 0 when Accelerate skips batches of a later one",
        "client/python/tests/frameworks/test_frameworks.py test_trainer",
        [("client/python/millrace/torch/_dataset.py", "if epoch or not getattr(loader_of(self), \"skip_batches\", 0):", "if self is self:")],
    ),
    (
        "whoever waits for a gateway is told at each attempt",
        "client/python/tests/test_waits.py test_a_refused_connection_is_told_at_once_and_once",
        [("client/python/millrace/_http/gateways.py", "if not self._here.told and (", "if (")],
    ),
    (
        "a batch that waits for torch holds its decoded parts twice",
        "client/python/tests/torch/test_torch_loader.py test_what_decoders_return_is_bounded",
        [("client/python/millrace/torch/_dataset.py", "        batch.forget_decoded()", "        pass")],
    ),
    (
        "the client of the page takes a damaged body",
        "conformance client python",
        [("integration/conformance/clients/stdlib.py", "if crc32c(body) == int(", "if crc32c(body) != 0 or int(")],
    ),
    (
        "the client of the page appends a whole body to a part of it",
        "conformance client node",
        [("integration/conformance/clients/reader.mjs", "(chunks = []), (have = 0), (size = ", "(size = ")],
    ),
    (
        "the Go client sends its token over any network without TLS",
        "./client TestTokensStayOffPlainNetworks",
        [("client/token.go", 'if base.Scheme != "http" ||', 'if base.Scheme != "" ||')],
    ),
    (
        "the Go client takes its token along to where a redirect points",
        "./client TestTokenFollowsNoRedirect",
        [("client/client.go", "cfg.HTTP.CheckRedirect == nil || token != nil {", "cfg.HTTP.CheckRedirect == nil {")],
    ),
    (
        "the Go client does not send a request again with a new token",
        "./client TestTokenIsReadAgainWhenItIsRefused",
        [("client/token.go", "	if text == refused {", '	if text != "" {')],
    ),
    (
        "a gateway that knows nothing hides the fault of the one that does",
        "./client TestGatewayThatIsDownMayStillKnow",
        [("client/retry.go", "	if !absent {\n		t.fault = err", "	if err != nil {\n		t.fault = err")],
    ),
    (
        "one gateway that does not know a token yet ends a job of the Go client",
        "./client TestGatewayThatDoesNotKnowANewTokenYet",
        [("client/retry.go", " || e.Status == http.StatusUnauthorized", "")],
    ),
    (
        "whoever prints a Go client prints its token",
        "./client TestTokenGoesWithEachRequest",
        [("client/client.go", 'cfg.Token = "" //', "_ = token //")],
    ),
    (
        "a traceback with variables shows the Python client's token",
        "client/python/tests/test_tokens.py test_nothing_shows_a_token",
        [("client/python/millrace/_http/wire.py", "head = Secret(", "head = str(")],
    ),
    (
        "the Python client shows its token in the repr of its settings and headers",
        "client/python/tests/test_tokens.py test_nothing_shows_a_token",
        [("client/python/millrace/_http/settings.py", "return \"'***'\"", "return str.__repr__(self)")],
    ),
    (
        "the Python client shows its token to a gateway of another name",
        "client/python/tests/test_tokens.py test_gateways_must_prove_their_names",
        [("client/python/millrace/_http/settings.py", "            if tls.client_cert is not None:\n",
          "            context.check_hostname = False\n            if tls.client_cert is not None:\n")],
    ),
    (
        "the Python client keeps a token that gateways refuse",
        "client/python/tests/test_tokens.py test_tokens_change_during_an_epoch",
        [("client/python/millrace/_http/settings.py", "return None if self._text == refused else self._text", "return None")],
    ),
    (
        "a worker of the Python client sends its token over any network without TLS",
        "client/python/tests/test_tokens.py test_tokens_stay_off_plain_networks",
        [("client/python/millrace/_http/settings.py", "        if found.given:\n", "        if found.given and self.insecure_plain_http:\n")],
    ),
    (
        "the Python client sends its token to whoever asks for a sign of life",
        "client/python/tests/test_tokens.py test_ways_to_give_a_token",
        [("client/python/millrace/_http/wire.py", "\"/readyz\", {}, None, None)", "\"/readyz\", {}, self._tokens.current(), None)")],
    ),
    (
        "a reader leaves its threads to the end of the interpreter",
        "client/python/tests/torch/test_torch_forks.py test_a_process_ends_while_threads_are_in_torch",
        [("client/python/millrace/_pool.py", "@atexit.register\n", "")],
    ),
]
