-- +goose Up

-- Contents of blocks are part of what the uid names: holders of a model cannot disagree.
alter table coverage drop column disputed;
