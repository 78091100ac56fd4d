// The parameters of a plan, by what they fix: written by go generate ./gateway/address.
export const order = ["seed", "shuffle", "window", "strata", "importance", "subset", "quarantine", "generation"];
export const batching = ["batch_size", "tail", "bucket"];
export const sharing = ["world_size", "balance", "micro", "share", "homes"];
