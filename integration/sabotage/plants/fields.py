"""Planted bugs of what is told and answered of types."""

PLANTS = [
    (
        "an array of a dynamic shape counts as one of plain values",
        "./chunkindex/mds TestFieldsOfEveryEncoding",
        [("chunkindex/mds/fields.go", "!ok || number == \"bool\" || size == nil || bytesOf(plain) != *size", "!ok || number == \"bool\" || size == nil")],
    ),
    (
        "a list of numbers in LitData has no type",
        "./chunkindex/litdata TestFieldsOfEverySerializer",
        [("chunkindex/litdata/fields.go", '\tcase "no_header_numpy":\n', '\tcase "never":\n')],
    ),
    (
        "big-endian numbers are told as little-endian ones",
        "./chunkindex/records TestFieldsOfArrays",
        [("chunkindex/records/fields.go", "kind == \"\" || d.name[0] == '>'", 'kind == ""')],
    ),
    (
        "an index may name parts that are shorter than their record",
        "./chunkindex/records TestFraming",
        [("chunkindex/records/fields.go", "if parts != nil && sum != uint64(l.size) {", "if false {")],
    ),
    (
        "a mixture tells the fields of its first source",
        "./gateway TestFieldsOfMixtures",
        [("gateway/plans/mixedindex.go", "if !reflect.DeepEqual(fields, p.Fields()) {", "if reflect.DeepEqual(p, fields) {")],
    ),
]
