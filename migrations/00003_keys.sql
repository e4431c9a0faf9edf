-- +goose Up

-- Keys of callers. Of a secret only its hash is here.
create table keys (
    id                  text primary key,
    name                text not null unique,
    scopes              text[] not null,
    sha256              text not null unique,
    requests_per_minute integer not null default 0,
    tokens_per_minute   integer not null default 0,
    answers             integer not null default 0,
    created             timestamptz not null,
    expires             timestamptz,
    used                timestamptz
);
