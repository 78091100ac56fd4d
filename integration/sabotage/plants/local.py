"""Plants of the gateways that processes start and share, and of what they need of the program."""

PLANTS = [
    (
        "everybody reaches a Unix socket",
        "./cmd/internal/node TestAUnixSocket",
        [("cmd/internal/node/listen.go", "dir.Chmod(own, mode)", "dir.Chmod(own, 0o666)")],
    ),
    (
        "a gateway takes the socket of another that runs",
        "./cmd/internal/node TestAUnixSocket",
        [("cmd/internal/node/listen.go", "return errors.New(\"another process listens there\")", "return nil")],
    ),
    (
        "a gateway that ends removes the socket of the next",
        "./cmd/internal/node TestAStaleSocketIsReplaced",
        [("cmd/internal/node/listen.go", "err == nil && os.SameFile(is, s.is)", "err == nil && is != nil")],
    ),
    (
        "a Unix socket answers for every host",
        "./cmd/internal/node TestServesWhileLocked",
        [("gateway/origin/origin.go", "ln.Addr().Network() == \"unix\" || ", "")],
    ),
    (
        "a gateway that ends lets go of the lock",
        "./cmd/internal/node TestServesWhileLocked",
        [("cmd/internal/node/lockfile.go", "\t\t\tend(errReleased)\n", "\t\t\tend(errReleased)\n\t\t\t_ = syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN)\n")],
    ),
    (
        "a gateway that nobody uses has a lame-duck time",
        "./cmd/internal/node TestServesWhileLocked",
        [("cmd/internal/node/node.go", "errors.Is(cause, errReleased) || ", "")],
    ),
    (
        "a reload of one dataset looks at all",
        "./cmd/internal/node TestReloadOfOneDataset",
        [("cmd/internal/node/reload.go", "return name == only }", "return name != \"\" }")],
    ),
    (
        "a reload of a dataset that is not there does nothing",
        "./cmd/internal/node TestReloadOfOneDataset",
        [("cmd/internal/node/reload.go", "what.only != \"\" && ", "what.only == \"-\" && ")],
    ),
    (
        "a client that was pickled does not hold its gateway",
        "client/python/tests/test_local.py test_a_client_travels",
        [("client/python/millrace/_http/gateways.py", "self._hold = None if settings.local is None else settings.local.hold()", "self._hold = None")],
    ),
    (
        "Ctrl-C ends the gateway of all",
        "client/python/tests/test_local.py test_ctrl_c_is_not_its_matter",
        [("client/python/millrace/_local.py", "start_new_session=True, ", "")],
    ),
    (
        "a gateway that was killed stays so",
        "client/python/tests/test_local.py test_a_killed_gateway_is_started_again",
        [("client/python/millrace/_http/gateways.py", "(ShortBody, NotFound, Unauthenticated, ProtocolError)) and local.revive()", "(NotFound,)) and local.revive()")],
    ),
    (
        "a gateway that is started again lacks the datasets of others",
        "client/python/tests/test_local.py test_a_killed_gateway_is_started_again",
        [("client/python/millrace/_http/gateways.py", "(ShortBody, NotFound, Unauthenticated, ProtocolError)) and local.revive()", "(ShortBody,)) and local.revive()")],
    ),
    (
        "two versions share a gateway",
        "client/python/tests/test_local.py test_two_versions",
        [("client/python/millrace/_local.py", "[serve, is_.st_size, is_.st_mtime_ns, settings", "[serve[1:], is_.st_size, settings")],
    ),
    (
        "two accounts share a gateway",
        "client/python/tests/test_local.py test_other_credentials",
        [("client/python/millrace/_local.py", "settings, os.environ", "os.environ")],
    ),
    (
        "settings of other gateways reach this one",
        "client/python/tests/test_local.py test_other_credentials",
        [("client/python/millrace/_indexing.py", "if not k.startswith(\"MILLRACE_\")}", "}")],
    ),
    (
        "a dataset that cannot be opened stays in everybody's way",
        "client/python/tests/test_local.py test_a_dataset_that_cannot_be_opened_is_in_nobodys_way",
        [("client/python/millrace/_local.py", "            self._write(served)  # else nobody could add another one\n", "")],
    ),
    (
        "a directory of others is taken",
        "client/python/tests/test_local.py test_a_directory_of_others_is_refused",
        [("client/python/millrace/_local.py", " or is_.st_mode & 0o077:", ":")],
    ),
    (
        "a file system without sockets is taken for one that has them",
        "client/python/tests/test_loopback.py test_sockets_cannot_be_bound",
        [("client/python/millrace/_local.py", " <= _LONGEST_SOCKET and _takes_sockets(base)", " <= _LONGEST_SOCKET")],
    ),
    (
        "everybody on the machine reads what a user has opened on a port",
        "client/python/tests/test_loopback.py test_every_path_is_too_long",
        [("client/python/millrace/_local.py", "\"who\": me, \"datasets\"", "\"who\": [\"token:user\", \"anonymous\"], \"datasets\"")],
    ),
    (
        "what answers at a gateway's old port is taken for it",
        "client/python/tests/test_loopback.py test_the_port_is_another_programs_by_now",
        [("client/python/millrace/_local.py", "return self._ask(\"GET\", \"/v1/datasets\", shown=False)[0] == 401 and self._ask(\"GET\", \"/v1/datasets\")[0] == 200", "return bool(self._ask(\"GET\", \"/v1/datasets\"))")],
    ),
    (
        "files that change in class folders are not told, as their index lies elsewhere",
        "client/python/tests/test_open.py test_class_folders_that_change",
        [("client/python/millrace/_indexing.py", "said = {} if \"://\" in address.partition(\",index=\")[0] else", "said = {} if \",index=\" in address else")],
    ),
    (
        "another web server is taken for a gateway without the dataset",
        "client/python/tests/test_faults.py test_something_else_answers",
        [("client/python/millrace/_http/wire.py", "cure = ProtocolError.cure if r.status == 404 else None", "cure = None")],
    ),
    (
        "users are told to install another project's package",
        "client/python/tests/test_package.py test_users_are_told_the_right_name",
        [("client/python/millrace/torch/__init__.py", "'millrace-data[torch]'", "'millrace[torch]'")],
    ),
    (
        "a build after a release candidate counts as older than it",
        "client/python/tests/test_wheels.py test_versions",
        [("tools/wheels.py", "int(candidate) + 1", "int(candidate)")],
    ),
    (
        "a wheel with the program is installed on every platform",
        "client/python/tests/test_wheels.py test_the_wheel_has_the_program",
        [("tools/wheels.py", "f\"py3-none-{PLATFORMS[platform]}\"", "\"py3-none-any\"")],
    ),
    (
        "a wheel has another version than its program",
        "client/python/tests/test_wheels.py test_versions",
        [("tools/wheels.py", "(f\".dev{time}\" if time else \"\")", "(\".dev0\" if time else \"\")")],
    ),
    (
        "a port that is not written yet is no port for ever",
        "client/python/tests/test_gateways.py test_a_port_that_is_not_written_yet",
        [("client/python/millrace/_http/fleet.py", "raise ConnectionRefusedError(f\"{self.port_file} holds", "raise ValueError(f\"{self.port_file} holds")],
    ),
    (
        "the second choice of the program is left out in Python",
        "client/python/tests/test_open.py test_choices_of_the_program_are_written_in_python",
        [("client/python/millrace/_indexing.py", "_keywords(one) for one in own[1:]]", "_keywords(one) for one in own[2:]]")],
    ),
    (
        "no place is this directory",
        "client/python/tests/test_local.py test_what_cannot_be_opened_is_said_in_full",
        [("client/python/millrace/_indexing.py", "    if not text:\n", "    if text is None:\n")],
    ),
    (
        "a word that is nearly a parameter is Python's to refuse",
        "client/python/tests/torch/test_torch_habits.py test_slips_are_refused_at_construction_and_by_mypy",
        [("client/python/millrace/errors.py", "get_close_matches(str(word), words, 1, 0.7)", "get_close_matches(str(word), words, 1, 0.99)")],
    ),
    (
        "a slash at the end of a prefix makes another dataset",
        "client/python/tests/test_open.py test_one_spelling_of_a_bucket",
        [("client/python/millrace/_indexing.py", "re.sub(r'/+(?=$|#)', '', at)", "at")],
    ),
    (
        "the place of an index is lost from an address",
        "client/python/tests/test_open.py test_one_spelling_of_a_directory",
        [("client/python/millrace/_indexing.py", "where, place = _absolute(where), self.place or place", "where, place = _absolute(where), self.place")],
    ),
    (
        "two sets of options share an index",
        "client/python/tests/test_open.py test_options_of_the_index",
        [("client/python/millrace/_indexing.py", "-{digest(json.dumps(self.options))[:_DIGITS]}", "-")],
    ),
    (
        "an index of options is made without them",
        "client/python/tests/test_open.py test_options_of_the_index",
        [("client/python/millrace/_indexing.py", "        _, failure = run(program, \"index\", address, *_flags(self.options), shown=True, note=note)\n        if failure and failure.code", "        _, failure = run(program, \"index\", address, shown=True, note=note)\n        if failure and failure.code")],
    ),
    (
        "files that are gone are not told",
        "client/python/tests/test_open.py test_files_that_come_and_go",
        [("client/python/millrace/_indexing.py", "\"gone\": \"gone\", ", "")],
    ),
    (
        "a copy that keeps its time is no new file",
        "client/python/tests/test_open.py test_files_that_come_and_go",
        [("cmd/internal/inventory/changes.go", "file.Ctim.Unix()", "file.Mtim.Unix()")],
    ),
    (
        "files that an index left out count as new",
        "client/python/tests/test_open.py test_files_that_the_index_left_out_are_not_new",
        [("cmd/internal/inventory/changes.go", "cameAfter(o.Loc.Dir, f.Key, made)", "cameAfter(o.Loc.Dir, f.Key, made.AddDate(-100, 0, 0))")],
    ),
    (
        "a copied directory counts as the one that was indexed",
        "client/python/tests/test_open.py test_a_copy_is_told",
        [("cmd/internal/inventory/changes.go", "case known && etag != f.ETag:", "case known && etag[:strings.LastIndexByte(etag, '-')] != f.ETag[:strings.LastIndexByte(f.ETag, '-')]:")],
    ),
    (
        "a note beside the shards counts as a new file",
        "./cmd/millrace TestInfoTellsFilesThatChanged",
        [("cmd/internal/inventory/changes.go", "!known && kinds[kindOf(f.Key)] && ", "!known && ")],
    ),
    (
        "a name that open made of options keeps the default index from being made",
        "client/python/tests/test_open.py test_the_default_index_is_made_beside_those_of_options",
        [("client/python/millrace/_indexing.py", "not all(_of_options(name) for name in failure.indexes)", "failure.indexes")],
    ),
    (
        "a misspelt option is found after the data were read",
        "client/python/tests/test_open.py test_a_slip_is_refused_before_data_are_read",
        [("client/python/millrace/client.py", "    refuse_slips(\"millrace.open\", own, {**asked, **named, **options})\n", "")],
    ),
    (
        "an index that is there stays when it is to be made again",
        "client/python/tests/test_open.py test_files_that_come_and_go",
        [("client/python/millrace/_local.py", "if known and not wanted.again and local._answers():", "if known and local._answers():")],
    ),
    (
        "users are sent to a file that no user has written",
        "client/python/tests/test_open.py test_a_refusal_names_no_file_that_no_user_has_written",
        [("client/python/millrace/_local.py", "why = said.partition(f\": dataset {self.name}: \")[2] or said", "why = said")],
    ),
    (
        "faults of the store do not say where the log is",
        "client/python/tests/test_open.py test_errors_say_where_to_look",
        [("client/python/millrace/_http/gateways.py", "                self.settings.local.explain(e)\n", "                pass\n")],
    ),
    (
        "the dataset in a gateway's address is dropped",
        "client/python/tests/test_open.py test_a_dataset_of_a_gateway_by_its_address",
        [("client/python/millrace/client.py", "return Client(*served(text, dataset), **options)", "return Client(served(text, dataset)[0], **options)")],
    ),
]
