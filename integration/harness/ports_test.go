package harness

import "testing"

// TestClaimPorts_GivesEachProgramItsOwnRange checks that concurrent test programs allocate
// different ports. The lock of a range excludes a second owner, even within one process.
func TestClaimPorts_GivesEachProgramItsOwnRange(t *testing.T) {
	b, err := claimPorts()
	if err != nil {
		t.Fatal(err)
	}
	defer b.lock.Close()
	other, err := claimPorts()
	if err != nil {
		t.Fatal(err)
	}
	defer other.lock.Close()
	if b.first == other.first {
		t.Errorf("got the ports from %d on twice", b.first)
	}
}

func TestFreeAddresses_AreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, address := range FreeAddresses(t, 100) {
		if seen[address] {
			t.Errorf("got %s twice", address)
		}
		seen[address] = true
	}
}
