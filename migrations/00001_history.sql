-- +goose Up

-- One row per round of a gateway's refresh loop. The unique key makes a repeated write harmless.
create table crawl (
    id          bigint generated always as identity primary key,
    source      text             not null, -- peer id of the gateway
    started     timestamptz      not null,
    duration_ms double precision not null,
    outcome     text             not null check (outcome in ('ok', 'failed')),
    error       text             not null default '',
    unique (source, started)
);
create index crawl_started on crawl (started);

-- What a model's blocks looked like. counts holds pairs of unsigned varints, holders and
-- for how many blocks in a row; store.packCounts writes it.
create table coverage (
    id             bigint generated always as identity primary key,
    model          text        not null, -- uid of the manifest
    model_name     text        not null,
    at             timestamptz not null,
    counts         bytea       not null,
    missing        text        not null, -- as people read it: "4-7, 9"
    missing_blocks integer     not null,
    disputed       integer[]   not null, -- start, end, start, end, ... of blocks whose holders disagree
    min_redundancy integer     not null,
    servers        integer     not null,
    bottleneck     double precision,     -- tokens per second; null: not measured
    session_tps    double precision,
    cache_left     bigint      not null
);
create index coverage_model_at on coverage (model, at);
create index coverage_at on coverage (at);

-- What a server said of itself, when it changed and from time to time.
create table observation (
    id            bigint generated always as identity primary key,
    at            timestamptz      not null,
    model         text             not null,
    model_name    text             not null,
    peer          text             not null,
    span_start    integer          not null,
    span_end      integer          not null,
    state         text             not null,
    inference_rps double precision,
    forward_rps   double precision,
    network_rps   double precision,
    throughput    double precision not null,
    cache_total   bigint           not null,
    cache_left    bigint           not null,
    version       text             not null,
    public_name   text             not null,
    relay         boolean          not null
);
create index observation_peer_at on observation (peer, at);
create index observation_at on observation (at);

-- The last observation of each server, and since when it is known.
create table server (
    model         text             not null,
    peer          text             not null,
    first_seen    timestamptz      not null,
    last_seen     timestamptz      not null,
    model_name    text             not null,
    span_start    integer          not null,
    span_end      integer          not null,
    state         text             not null,
    inference_rps double precision,
    forward_rps   double precision,
    network_rps   double precision,
    throughput    double precision not null,
    cache_total   bigint           not null,
    cache_left    bigint           not null,
    version       text             not null,
    public_name   text             not null,
    relay         boolean          not null,
    primary key (model, peer)
);
create index server_last_seen on server (last_seen);

-- Changes of state. peer is '' for events of a model as a whole.
create table event (
    id          bigint generated always as identity primary key,
    at          timestamptz not null,
    kind        text        not null,
    model       text        not null,
    model_name  text        not null,
    peer        text        not null,
    public_name text        not null,
    span_start  integer     not null,
    span_end    integer     not null,
    detail      text        not null
);
create index event_subject on event (model, peer, id);
create index event_at on event (at);

-- +goose Down
drop table event, server, observation, coverage, crawl;
