"""Planted bugs of Unix sockets: who may connect, who has connected, and what lies at the path."""

PLANTS = [
    (
        "sockets: a user of another user namespace counts",
        "./internal/socket TestUserOfAConnection/another_user_namespace",
        [("internal/socket/peer_linux.go", "err != nil || !bytes.Equal(own, theirs)", "err != nil || len(theirs) == 0")],
    ),
    (
        "sockets: a user of another PID namespace counts",
        "./internal/socket TestUserOfAConnection/another_PID_namespace",
        [("internal/socket/peer_linux.go", '[]byte("\\nNSpid:\\t"+number+"\\n")', '[]byte("\\nNSpid:\\t"+number)')],
    ),
    (
        "sockets: a process that has ended counts",
        "./internal/socket TestUserOfAConnection/a_process_that_has_ended",
        [("internal/socket/peer_linux.go", "err == nil && ended == 0", "err == nil && ended >= 0")],
    ),
    (
        "sockets: a process that has no number here counts as root",
        "./internal/socket TestUserOfAConnection/another_user_namespace",
        [("internal/socket/peer_linux.go", "if err != nil || !ok {\n\t\treturn 0, false", "if err != nil || !ok {\n\t\treturn 0, true")],
    ),
    (
        "sockets: a user goes before a token",
        "./gateway/auth TestUsers",
        [
            ("gateway/auth/guard.go", "\tcase shown.UID != nil:\n\t\treturn p.byUID(shown.UID()), nil\n", ""),
            ("gateway/auth/guard.go", "\tcase len(shown.Authorization) > 0:\n", "\tcase shown.UID != nil:\n\t\treturn p.byUID(shown.UID()), nil\n\tcase len(shown.Authorization) > 0:\n"),
        ],
    ),
    (
        "sockets: a user of whom the kernel is not sure counts",
        "./gateway/auth TestUsers",
        [("gateway/auth/who.go", "if !ok || !p.means(name) {", "if !p.means(name) {")],
    ),
    (
        "sockets: users in containers count, and those outside do not",
        "./integration TestUsersOfOneMachine",
        [("internal/socket/peer_linux.go", "uid, ok = who.Uid, who.Pid > 0 && isNeighbour(process, strconv.Itoa(int(who.Pid)))", "uid, ok = who.Uid, who.Pid > 0 && !isNeighbour(process, strconv.Itoa(int(who.Pid)))")],
    ),
    (
        "sockets: a user's number counts in a container",
        "./integration TestTwoContainers",
        [("internal/socket/peer_linux.go", "uid, ok = who.Uid, who.Pid > 0 && isNeighbour(process, strconv.Itoa(int(who.Pid)))", "uid, ok = who.Uid, true")],
    ),
    (
        "sockets: TLS is asked for through a socket too",
        "./cmd/internal/node TestSeveralAddresses",
        [("internal/port/port.go", 'secret == nil || ln.Addr().Network() == "unix"', "secret == nil")],
    ),
    (
        "sockets: each address has a bound on connections of its own",
        "./internal/socket TestListenersShareTheirBound",
        [("internal/socket/socket.go", "Listener: ln, open: open,", "Listener: ln, open: make(chan struct{}, cap(open)),")],
    ),
    (
        "sockets: what was bound before a busy address stays",
        "./cmd/internal/node TestABusyAddressLeavesNothingBehind",
        [("cmd/internal/node/node.go", "for _, ln := range append(l.data, l.peers, l.admin, l.health) {", "for _, ln := range []net.Listener{l.peers, l.admin, l.health} {")],
    ),
    (
        "sockets: the place of another user's dead socket is taken",
        "./cmd/internal/node TestAnotherUsersSocketStays",
        [("cmd/internal/node/listen.go", "case owner(is) != os.Geteuid():\n\t\treturn fmt.Errorf(\"a socket of", "case owner(is) < 0:\n\t\treturn fmt.Errorf(\"a socket of")],
    ),
    (
        "sockets: a link that has taken the socket's place is believed",
        "./cmd/internal/node TestSocketMode",
        [("cmd/internal/node/listen.go", "case !os.SameFile(is, made):", "case !os.SameFile(made, made):")],
    ),
    (
        "sockets: all users may see statistics where all may connect",
        "./cmd/internal/node TestStatisticsAreNotForAllUsers",
        [("cmd/internal/node/access.go", '(Private(c.SocketMode) || !hasSocket(at))', '(at != "" || hasSocket(at))')],
    ),
    (
        "sockets: all users may read without an access file",
        "./integration TestPortsThatOthersReach",
        [("cmd/millrace/serve_access.go", "if !open && !node.Private(c.SocketMode) {", "if !open && c.SocketMode > 0o777 {")],
    ),
    (
        "sockets: the chart opens the socket to all pods without an access file",
        "./integration TestChartRefusesWrongValues",
        [("deploy/helm/millrace/values.schema.json", '"access": {"minProperties": 1}', '"access": {"minProperties": 0}')],
    ),
    (
        "sockets: the chart's pod listens at a socket that the node does not see",
        "./integration TestChartSocket",
        [("deploy/helm/millrace/templates/_pod.tpl", "- {name: socket, hostPath: {path: {{ . }}, type: Directory}}", "- {name: socket, emptyDir: {}}")],
    ),
]
