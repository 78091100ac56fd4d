"""Planted bugs of subsets, lists of bad samples and mixtures that addresses hold."""

PLANTS = [
    (
        "a split in an address leaves its salt out",
        "./gateway TestWrittenSplitIsTheStoredOne",
        [("gateway/plans/selection.go", "steps[i].Name, steps[i].Rule.Salt = step.Name, step.Salt", "steps[i].Name = step.Name")],
    ),
    (
        "places of a step are counted over the whole dataset",
        "./selection TestCutByPlaces",
        [("selection/cut.go", "came := w.passed[i]", "came := w.first[chunk]")],
    ),
    (
        "the first samples of a split read the names of all",
        "./selection TestCutReadsNoMoreNamesThanItNeeds",
        [("selection/cut.go", "if w.over() {", "if false {")],
    ),
    (
        "one split has several addresses",
        "./gateway TestWrittenSelectionsHaveOneAddress",
        [("gateway/address/subset.go", "parts[i].Size /= divisor", "parts[i].Size /= min(divisor, 1)")],
    ),
    (
        "a split of a split goes by the same hash",
        "./gateway/address TestSubsetRefuses",
        [("gateway/address/subset.go", "other.Parts != nil && other.Salt == step.Salt", "false")],
    ),
    (
        "the last run of a list in an address is left out",
        "./gateway TestWrittenQuarantine",
        [("gateway/plans/selection.go", "\tfor _, run := range runs {", "\tfor _, run := range runs[:len(runs)-1] {")],
    ),
]
