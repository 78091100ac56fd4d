"""Deadlines: a slow or silent store, peer, client or name server delays no other request."""

PLANTS = [
    (
        "Python client waits without end for a gateway that trickles",
        "client/python/tests/test_ends.py test_a_body_that_trickles_comes_to_its_end",
        [("client/python/millrace/_http/wire.py", "            self.go_on()  # also after data, because a gateway may send single bytes\n", "")],
    ),
    (
        "Python client counts the time in which its process was suspended",
        "client/python/tests/test_faults.py test_a_job_is_suspended",
        [("client/python/millrace/_http/wire.py", "min(now - self._seen, step + STILL)", "now - self._seen")],
    ),
    (
        "Go client waits for a name server while gateways answer",
        "./client TestNameServerThatHangsHoldsNobodyUp",
        [("client/names.go", "time.AfterFunc(renewTime-", "time.AfterFunc(lookupTime-")],
    ),
    (
        "peer waits without end for a body that stalls",
        "./cluster/peer TestSilentPeersAreGivenUp",
        [("cluster/peer/watchdog.go", "left := min(w.until.Sub(now), w.last.Add(w.silence).Sub(now))", "left := w.until.Sub(now)")],
    ),
    (
        "datapath gives one query to a peer all the time of a request",
        "./datapath TestPeers_FaultsChangeNoByte",
        [("datapath/question.go", "peerPart = 2\n", "peerPart = 1\n")],
    ),
    (
        "datapath lets a store that hangs take the places of other stores",
        "./datapath TestGate_HangingStoreKeepsOnlyItsShare",
        [("datapath/gate.go", "return own.running < max(g.limit/sharing, 1)", "return own.running < 0")],
    ),
    (
        "gateway waits without end for a reader that stopped reading",
        "./gateway TestSlowReaders",
        [("internal/sending/writer.go", "stall, total := w.moved.Add(w.Stall), w.began.Add(writeTotal)", "stall, total := w.began.Add(24 * time.Hour), w.began.Add(24 * time.Hour)")],
    ),
    (
        "gateway lets an index whose store hangs hold the places of all datasets",
        "./gateway TestAnIndexWhoseStoreHangsHoldsUpItsOwnDatasetAlone",
        [("gateway/batch.go", "\tif d.Index.InPart() {", "\tif d.Index == nil {")],
    ),
]
