// Package location knows where the shards and the index of a dataset lie: it reads addresses such as
// photos=s3://bucket/photos,index=s3://mine/photos, and opens their stores and indexes.
package location
