-- +goose Up

-- How often keys were added, removed or changed, so that gateways read them only then. When a key was
-- used is no such change.
create table if not exists keys_version (
    singleton boolean primary key default true check (singleton),
    version   bigint not null
);

insert into keys_version (version) values (1) on conflict do nothing;

-- +goose StatementBegin
create or replace function keys_changed() returns trigger language plpgsql as $$
begin
    update keys_version set version = version + 1;
    return null;
end
$$;
-- +goose StatementEnd

create or replace trigger keys_changed
    after insert or delete or truncate or update of id, name, scopes, sha256, requests_per_minute, tokens_per_minute, answers, created, expires
    on keys for each statement execute function keys_changed();
