package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is a package whose mutants are judged.
type target struct {
	path string
	// drops restricts the mutants to deleted statements.
	drops bool
	// slow lists the tests that no mutant runs, with the reason. The other tests take at most 5
	// s together.
	slow map[string]string
}

// Reasons why no mutant runs a test.
const (
	python  = "runs Python, which tests the other implementation"
	orders  = "draws many orders and counts what comes where"
	storm   = "runs readers and gateways among random failures"
	epochs  = "reads whole epochs, each with several sizes of memory"
	rates   = "measures rates of stores under a fake clock"
	closing = "opens, reads and closes datasets in every form"
)

var targets = []target{
	{path: "gateway/address"},
	{path: "gateway/admission"},
	{path: "gateway/auth"},
	{path: "internal/budget"},
	{path: "datapath/chunkcache"},
	{path: "datapath/lookahead", slow: map[string]string{"TestReadersKeepFewLargePlans": "plans orders of 20,000 chunks"}},
	{path: "chunkindex/selection"},
	{path: "chunkindex/importance"},
	{path: "cluster/placement", slow: map[string]string{"TestPythonReproducesTheVectors": python}},
	{path: "cluster/peer", slow: map[string]string{
		"TestConnectionsAreRenewed":          "sends 12,000 requests over TLS",
		"TestExpiredCertificatesStopWorking": "sends requests over TLS for hours of a fake clock",
	}},
	{path: "shuffle", slow: map[string]string{
		"TestPythonReproducesTheVectors":         python,
		"TestPythonReproducesTheHomesVectors":    python,
		"TestPythonReproducesTheMixtureVectors":  python,
		"TestPythonReproducesTheWeightedVectors": python,

		"TestSlot_EpochsAreIndependent":                 orders,
		"TestSlotMixesClasses":                          orders,
		"TestBatchVarianceIsThatOfEpochs":               orders,
		"TestEveryEpochIsABijectionBeyondTheExactSizes": orders,
		"TestPairsAreUniform":                           orders,
	}},
	{path: "datapath", drops: true, slow: slowDatapath},
	{path: "s3backend", drops: true},
}

var slowDatapath = map[string]string{
	"TestSimulatedScenarios":                     storm,
	"TestStormBetweenGateways":                   storm,
	"TestStormOfMixtures":                        storm,
	"TestSampleReads_Storm":                      storm,
	"TestBatchesOfMixturesDoNotWaitForEachOther": storm,
	"TestViewsThatFlap":                          storm,

	"TestEveryOrderAndCacheGivesTheStoredBytes": epochs,
	"TestFullEpochWithATenthOfTheDataInMemory":  epochs,
	"TestSecondEpochWithHalfTheDataInMemory":    epochs,
	"TestWarmEpochNeedsNoStore":                 epochs,
	"TestStoreReadsOfAnEpoch":                   epochs,
	"TestPlainGatewaysReadTheStoreOnce":         epochs,
	"TestJobsOnOneEpochReadTheStoreOnce":        epochs,
	"TestReadersLeaveEachOtherTheirChunks":      epochs,
	"TestRestartedPathReadsTheDiskAlone":        epochs,
	"TestAReaderThatPausedForDays":              epochs,
	"TestFirstBatch_ResumeReadsByRanges":        epochs,

	"TestReadsSideBySideFollowTheBandwidth":           rates,
	"TestReadsThatAreHeldBackMoveNoPlaces":            rates,
	"TestStoreThatAsksForLess":                        rates,
	"TestColdEpochKeepsTheLineFull":                   rates,
	"TestWarm_DoesNotDelayReader":                     rates,
	"TestFirstBatchOfAGatewayWithManyPlaces":          rates,
	"TestFirstBatchDoesNotWaitForThoseAskedForWithIt": rates,
	"TestFirstBatch_ChoosesFasterRead":                rates,

	"TestSourcesComeAndGoUnderLoad":      closing,
	"TestClose_FreesEverything":          closing,
	"TestCompressedChunksAreKeptDecoded": closing,
}

// pythonParts lists the parts of the Python client that python.py judges.
var pythonParts = []string{"python/order", "python/proof", "python/transfer", "python/decode"}

// scored returns the paths of all packages that may have a score.
func scored() (paths []string) {
	for _, t := range targets {
		paths = append(paths, t.path)
	}
	return append(paths, pythonParts...)
}

// choose returns the targets with the given paths, or all targets by default. piece selects some of
// these: 2/6 is every sixth target, beginning with the second.
func choose(paths []string, piece string) (chosen []target, err error) {
	for _, path := range paths {
		path = strings.Trim(strings.TrimPrefix(path, "./"), "/")
		i := slices.IndexFunc(targets, func(t target) bool { return t.path == path })
		if i < 0 {
			return nil, fmt.Errorf("%s is not in integration/mutation/targets.go", path)
		}
		chosen = append(chosen, targets[i])
	}
	if len(paths) == 0 {
		chosen = targets
	}
	if piece == "" {
		return chosen, nil
	}
	var number, pieces int
	if _, err := fmt.Sscanf(piece, "%d/%d", &number, &pieces); err != nil || number < 1 || number > pieces {
		return nil, fmt.Errorf("PIECE=%s requires a form like 2/6", piece)
	}
	var taken []target
	for i := number - 1; i < len(chosen); i += pieces {
		taken = append(taken, chosen[i])
	}
	return taken, nil
}
