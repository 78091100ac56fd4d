"""Planted bugs of what is told and answered of types."""

PLANTS = [
    (
        "an array of a dynamic shape counts as one of plain values",
        "./chunkindex/format/mds TestFieldsOfEveryEncoding",
        [("chunkindex/framing/mds.go", "!ok || number == \"bool\" || size == nil || bytesOf(plain) != *size", "!ok || number == \"bool\" || size == nil")],
    ),
    (
        "a list of numbers in LitData has no type",
        "./chunkindex/format/litdata TestFieldsOfEverySerializer",
        [("chunkindex/framing/litdata.go", '\tcase "no_header_numpy":\n', '\tcase "never":\n')],
    ),
    (
        "big-endian numbers are told as little-endian ones",
        "./chunkindex/format/records TestFieldsOfArrays",
        [("chunkindex/framing/array.go", "kind == \"\" || d.name[0] == '>'", 'kind == ""')],
    ),
    (
        "an index may name parts that are shorter than their record",
        "./chunkindex/framing TestArray",
        [("chunkindex/framing/array.go", "if parts != nil && sum != uint64(l.size) {", "if false {")],
    ),
    (
        "a mixture tells the fields of its first source",
        "./gateway TestFieldsOfMixtures",
        [("gateway/plans/mixtureindex.go", "		if everywhere {\n", "		if everywhere || f.Name != \"\" {\n")],
    ),
    (
        "a value of another length than its type's moves all that come after",
        "./gateway TestLengthThatATypeDoesNotHaveIsRefused",
        [("gateway/body/arrow/stream.go", "!null && !fields[i].Type.Fits(n)", "null && !fields[i].Type.Fits(n)")],
    ),
    (
        "a number that is missing leaves no room in its column",
        "./gateway/body TestNullsHaveTheirRoom",
        [("gateway/body/arrow.go", "\t\t\tb.pad(int(width))\n", "")],
    ),
    (
        "lists count bytes for elements",
        "./gateway/body/arrow TestArrowReadsTheStream",
        [("gateway/body/arrow/stream.go", "unit = uint32(t.element.width)", "unit = 1")],
    ),
    (
        "elements of lists have no buffers of their own",
        "./gateway/body/arrow TestArrowReadsTheStream",
        [("gateway/body/arrow/stream.go", "all = append(all, 0) // no element is none", "_ = t.element")],
    ),
    (
        "an array is longer than Arrow can say",
        "./gateway/body/arrow TestTypesThatHaveNoColumn",
        [("gateway/body/arrow/types.go", "n*uint64(t.width) > math.MaxInt32", "n > math.MaxInt32")],
    ),
    (
        "a stream of Arrow that was cut between two record batches is whole",
        "./chunkindex/format/arrowipc TestRefused",
        [("chunkindex/format/arrowipc/arrowipc.go", 'return nil, errors.New("the stream lacks the mark of its end: it may have been cut short, or its writer was not closed")', "return nil, io.EOF")],
    ),
    (
        "a null of Arrow inside a list of numbers is a number",
        "./chunkindex/codec/arrowbatch TestNullInsideAListOfNumbersIsRefused",
        [("chunkindex/codec/arrowbatch/row.go", "if !element.full(from, to) {", "if false {")],
    ),
    (
        "the compression of buffers that files of Arrow 0.17 tell of is not seen",
        "./chunkindex/codec/arrowbatch TestCompressionThatArrow017Tells",
        [("chunkindex/codec/arrowbatch/message.go", 'if pair.text(0) != "ARROW:experimental_compression" {', "if true {")],
    ),
    (
        "a null in a field of Arrow that is not nullable is taken for a value",
        "./chunkindex/codec/arrowbatch TestNullsOfFieldsThatAreNotNullable",
        [("chunkindex/codec/arrowbatch/row.go", "if !a.node.Nullable {", "if false {")],
    ),
    (
        "lists of 64-bit offsets are read as those of 32 bits",
        "./chunkindex/codec/arrowbatch TestRowsAreWhatArrowReads",
        [("chunkindex/codec/arrowbatch/batch.go", "\tcase formLarge, formLists:\n\t\treturn int64", "\tcase formLarge:\n\t\treturn int64")],
    ),
    (
        "a record batch without a row stays among those of a chunk",
        "./chunkindex/format/arrowipc TestEmptyBatchesAreNoFrames",
        [("chunkindex/format/rowscan/reader.go", "\t\tr.frames = r.frames[:len(r.frames)-1]\n", "")],
    ),
    (
        "a number below 0 is looked up in a dictionary",
        "./chunkindex/codec/arrowbatch TestHostileDictionaries",
        [("chunkindex/codec/arrowbatch/batch.go", "if a.signed && b[1<<a.width-1] >= 0x80 {", "if false {")],
    ),
    (
        "memory is taken for as many values as a dictionary promises",
        "./chunkindex/codec/arrowbatch TestHostileDictionaries",
        [("chunkindex/codec/arrowbatch/dictionary.go", "\tif d.held+4*a.n > MaxDictionary {\n\t\treturn ErrDictionary\n\t}\n", "")],
    ),
    (
        "a dictionary that is continued begins anew",
        "./chunkindex/format/arrowipc TestDictionariesAreAnEncoding",
        [("chunkindex/codec/arrowbatch/dictionary.go", "\tcase !more:\n\t\tif was", "\tcase true:\n\t\tif was")],
    ),
    (
        "a dictionary is continued where it is replaced",
        "./chunkindex/format/arrowipc TestDictionariesAreAnEncoding",
        [("chunkindex/codec/arrowbatch/dictionary.go", "\tcase !more:\n\t\tif was", "\tcase !more && was == nil:\n\t\tif was")],
    ),
    (
        "the index keeps values of a dictionary that no row has",
        "./chunkindex/codec/arrowbatch TestDictionariesInParameters",
        [("chunkindex/codec/arrowbatch/dictionary.go", "\t\tif d.used[k/64]&(1<<(k%64)) != 0 {", "\t\tif d.used[k/64] != 0 {")],
    ),
    (
        "a null of a dictionary is a value without a byte",
        "./chunkindex/codec/arrowbatch TestDictionariesInParameters",
        [("chunkindex/codec/arrowbatch/batch.go", "if a.form != formCoded || !a.dict.nulls {", "if a.form != formView || !a.dict.nulls {")],
    ),
    (
        "the checksum of a narrow integer is that of the stored one",
        "./gateway TestColumnsHaveTheirLogicalTypes",
        [("gateway/body/narrow.go", "p.Length, p.CRC32C = width, Checksum(value[:width])", "_, p.Length = value, width")],
    ),
    (
        "an integer of one byte is told as one of four",
        "./gateway TestColumnsHaveTheirLogicalTypes",
        [("chunkindex/codec/rowgroup/types.go", "(l.bits == 8 || l.bits == 16):", "l.bits == 16:")],
    ),
    (
        "older files say nothing of narrow integers",
        "./chunkindex/codec/rowgroup TestOlderTypes",
        [("chunkindex/codec/rowgroup/types.go", "bits: 8 << (e.converted - 15), signed", "signed")],
    ),
    (
        "files whose decimals have other scales are one data set",
        "./chunkindex/rows TestLogicalTypesDiffer",
        [("chunkindex/rows/schema.go", "field{n.Name, n.Type, n.Logical,", 'field{n.Name, n.Type, "",')],
    ),
    (
        "an index is written whose parameters are longer than an index may have",
        "./chunkindex/build TestParametersThatAreTooLong",
        [("chunkindex/build/cut.go", "if len(params) > layout.MaxTable {", "if len(params) > 2*layout.MaxTable {")],
    ),
    (
        "the index keeps dictionaries of any length",
        "./chunkindex/format/arrowipc TestValuesThatTheIndexWouldKeep",
        [("chunkindex/codec/arrowbatch/dictionary.go", "len(b) > maxUsed {", "len(b) > 2*maxUsed {")],
    ),
]
