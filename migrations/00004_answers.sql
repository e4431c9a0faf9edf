-- +goose Up

-- Answers of /v1/responses that callers may ask for again and go on from.
create table answer (
    id      text primary key,
    owner   text        not null, -- the id of a key: nobody else reads it; '' without keys
    payer   text        not null, -- a key or an address: whose share it takes
    created timestamptz not null,
    size    bigint      not null, -- in bytes, as it is counted
    body    bytea       not null
);
create index answer_payer on answer (payer, created);
create index answer_created on answer (created);
