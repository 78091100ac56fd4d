// Package location parses addresses of a dataset's shards and index, such as
// photos=s3://bucket/photos,index=s3://mine/photos, and opens their stores and indexes.
package location
