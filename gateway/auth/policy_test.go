package auth

import "testing"

// named returns a principal with the given names.
func named(names ...string) Principal { return Principal{Name: names[0], who: names} }

const rightsFile = `
tokens:
  - {name: a, sha256: 0000000000000000000000000000000000000000000000000000000000000001}
  - {name: b, sha256: 0000000000000000000000000000000000000000000000000000000000000002}
issuers:
  - {name: corp, issuer: https://id.example, audience: millrace, groups: groups}
grants:
  - {who: ["token:a"], datasets: [photos, "text-*"], rights: [read, report]}
  - {who: ["token:a", "jwt:corp#alice"], datasets: ["*-warm"], rights: [warm]}
  - {who: ["token:b"], datasets: [mix], rights: [read], grants_sources: true}
  - {who: ["token:a"], datasets: [mix], rights: [read]}
  - {who: ["token:b"], datasets: [mix], rights: [warm], grants_sources: false}
  - {who: [anonymous], datasets: [open], rights: [read]}
  - {who: ["group:corp#research"], datasets: ["*"], rights: [read]}
  - {who: ["certificate:Ops.Example"], rights: [admin]}
limits:
  - {who: ["token:b", "group:corp#research"], memory: 0.25, requests: 100/s}
  - {who: [anonymous], requests: 0.5/s}
  - {who: ["*"], memory: 1}
`

func TestRights(t *testing.T) {
	g := mustOpen(t, rightsFile)
	a, b, alice := named("token:a"), named("token:b"), named("jwt:corp#alice", "group:corp#research")
	ops, bob := named("certificate:ops.example"), named("jwt:corp#bob", "group:corp#sales")
	for _, c := range []struct {
		who     Principal
		right   Right
		dataset string
		want    bool
	}{
		{a, Read, "photos", true},
		{a, Report, "photos", true},
		{a, Warm, "photos", false},
		{a, Admin, "", false},
		{a, Read, "photos2", false},
		{a, Read, "photo", false},
		{a, Read, "Photos", false},
		{a, Read, "", false},
		{a, Read, "text-", true},
		{a, Report, "text-en", true},
		{a, Read, "text", false},
		{a, Read, "xtext-en", false},
		{a, Warm, "x-warm", true},
		{a, Read, "x-warm", false},
		{a, Warm, "text-warm", true},
		{a, Warm, "warm", false},
		{a, Read, "open", true},
		{a, Report, "open", false},
		{a, None, "anything", true},
		{b, Read, "mix", true},
		{b, Warm, "mix", true},
		{b, Report, "mix", false},
		{b, Read, "photos", false},
		{alice, Read, "anything", true},
		{alice, Report, "anything", false},
		{alice, Warm, "z-warm", true},
		{alice, Admin, "", false},
		{bob, Read, "anything", false},
		{bob, Read, "open", true},
		{bob, Warm, "z-warm", false},
		{ops, Admin, "", true},
		{ops, Admin, "photos", true},
		{ops, Read, "photos", false},
		{ops, Read, "open", true},
		{Anonymous(), Read, "open", true},
		{Anonymous(), Read, "photos", false},
		{Anonymous(), Admin, "", false},
		{Anonymous(), None, "", true},
		{Principal{}, Read, "photos", false},
		{Principal{}, Admin, "", false},
	} {
		if got := g.May(c.who, c.right, c.dataset); got != c.want {
			t.Errorf("%s, %v on %q: got %t, want %t", c.who.Name, c.right, c.dataset, got, c.want)
		}
	}
}

// TestMay_GivesEverybodysAdminToPrincipals checks that callers with credentials keep every right
// that anonymous callers have.
func TestMay_GivesEverybodysAdminToPrincipals(t *testing.T) {
	if who := named("token:a"); !Everybody(Admin).May(who, Admin, "") || Everybody(Read).May(who, Admin, "") {
		t.Error("want admin for a principal where everybody is an admin, and only there")
	}
}

func TestGrantsSources(t *testing.T) {
	g := mustOpen(t, rightsFile)
	for who, want := range map[string]bool{"token:b": true, "token:a": false, "group:corp#research": false, "anonymous": false} {
		if got := g.GrantsSources(named(who), "mix"); got != want {
			t.Errorf("%s: got %t, want %t", who, got, want)
		}
	}
	if g.GrantsSources(named("token:b"), "photos") {
		t.Error("a dataset that the grant does not name: got its sources, want none")
	}
}

func TestLimits(t *testing.T) {
	g := mustOpen(t, rightsFile)
	for _, c := range []struct {
		who  Principal
		want Limits
	}{
		{named("token:a"), Limits{Memory: 1}},
		{named("token:b"), Limits{0.25, 100}},
		{named("jwt:corp#x", "group:corp#research"), Limits{0.25, 100}},
		{Anonymous(), Limits{Requests: 0.5}},
	} {
		if got := g.Limits(c.who); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.who.Name, got, c.want)
		}
	}
	if got := mustOpen(t, `grants: [{who: [anonymous], datasets: [open], rights: [read]}]`).Limits(Anonymous()); got != (Limits{}) {
		t.Errorf("a file without limits: got %+v, want none", got)
	}
}

func TestEverybody(t *testing.T) {
	g := Everybody(Read, Report)
	p, err := g.Authenticate(Credentials{Authorization: []string{"Basic x", ""}})
	if err != nil || !p.Anonymous() {
		t.Errorf("any credentials: got %q, %v, want anonymous", p.Name, err)
	}
	for right, want := range map[Right]bool{None: true, Read: true, Report: true, Warm: false, Admin: false} {
		if got := g.May(p, right, "photos"); got != want {
			t.Errorf("%v: got %t, want %t", right, got, want)
		}
	}
	if !Everybody(Admin).May(p, Admin, "") || Everybody(Admin).May(p, Read, "photos") || Everybody().May(p, Read, "photos") {
		t.Error("rights that were not given: got them, want those given")
	}
	if g.GrantsSources(p, "mix") || g.Limits(p) != (Limits{}) || g.Reload() != nil || !g.Stats().FileOK {
		t.Error("got sources, limits or a fault, want none")
	}
}
