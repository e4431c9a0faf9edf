# Agents and answers by a schema, with the packages that people build them with. WHORL_URL is the
# gateway. The first claim that does not hold ends it with an error.
import asyncio
import json
import os

os.environ.update(OPENAI_API_KEY="none", OPENAI_AGENTS_DISABLE_TRACING="1", LITELLM_LOCAL_MODEL_COST_MAP="True")
import openai
from pydantic import BaseModel

base = os.environ["WHORL_URL"]
url = base + "/v1"
client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
model = client.models.list().data[0].id
say = [{"role": "user", "content": "Ada Lovelace was 36. She was a person."}]


def claim(ok, *what):
    if not ok:
        raise AssertionError(what)


class Person(BaseModel):
    name: str
    age: int
    alive: bool


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    days: int


# OpenAI: .parse() of chats and responses, plain and streamed; tools that have to be called.
schema = {"name": "person", "strict": True, "schema": {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}}, "required": ["code"], "additionalProperties": False}}
chat = client.chat.completions.create(model=model, messages=say, max_tokens=60, response_format={"type": "json_schema", "json_schema": schema})
claim(len(json.loads(chat.choices[0].message.content)["code"]) == 6, chat)
kinds = {"name": "k", "schema": {"type": "array", "items": {"enum": ["person", "city"]}, "minItems": 2, "maxItems": 2}}
chat = client.chat.completions.create(model=model, messages=say, max_tokens=40, n=2, logprobs=True, response_format={"type": "json_schema", "json_schema": kinds})
for c in chat.choices:
    claim(len(json.loads(c.message.content)) == 2 and set(json.loads(c.message.content)) <= {"person", "city"}, c)


def made(kind, tries=8):
    """Answers whose texts end before max_tokens does."""
    for seed in range(tries):
        try:
            got = kind(seed)
        except openai.LengthFinishReasonError:
            continue
        if got is not None:
            return got
    raise AssertionError("no answer came to its end")


person = made(lambda seed: client.chat.completions.parse(model=model, messages=say, max_tokens=120, seed=seed, response_format=Person).choices[0].message.parsed)
claim(isinstance(person, Person), person)
response = made(lambda seed: client.responses.parse(model=model, input="Ada was 36.", max_output_tokens=120, text_format=Person, extra_body={"seed": seed}).output_parsed)
claim(isinstance(response, Person), response)

tool = openai.pydantic_function_tool(Weather)
call = made(lambda seed: (client.chat.completions.create(model=model, messages=say, max_tokens=100, seed=seed, tools=[tool], tool_choice="required", parallel_tool_calls=False).choices[0].message.tool_calls or [None])[0])
claim(call.function.name == "Weather" and call.id, call)


def streamed(seed):
    name, arguments, finish = "", "", None
    for chunk in client.chat.completions.create(model=model, messages=say, max_tokens=100, seed=seed, tools=[tool], tool_choice={"type": "function", "function": {"name": "Weather"}}, stream=True):
        for c in chunk.choices:
            for piece in c.delta.tool_calls or []:
                name += piece.function.name or ""
                arguments += piece.function.arguments or ""
            finish = c.finish_reason or finish
    claim(name == "Weather", name)
    return Weather.model_validate_json(arguments) if finish == "tool_calls" else None


claim(isinstance(made(streamed), Weather))

# Responses: stored, gone on from, streamed, listed, deleted.
one = client.responses.create(model=model, input="Hello", max_output_tokens=8)
claim(client.responses.retrieve(one.id).output_text == one.output_text, one)
two = client.responses.create(model=model, input="And you?", previous_response_id=one.id, max_output_tokens=8)
claim(two.usage.input_tokens > one.usage.input_tokens and two.previous_response_id == one.id, two)
claim(client.responses.input_items.list(two.id).data[0].content[0].text == "And you?")
client.responses.delete(one.id)
try:
    client.responses.retrieve(one.id)
    claim(False)
except openai.NotFoundError:
    pass
with client.responses.stream(model=model, input="Hello", max_output_tokens=8, extra_body={"seed": 3}) as stream:
    events = list(stream)
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    claim(events[-1].type in ("response.completed", "response.incomplete") and events[-1].response.output_text == text, events[-1])

# Vectors.
vectors = client.embeddings.create(model=model, input=["A cat", "A dog"]).data
claim(len(vectors) == 2 and abs(sum(x * x for x in vectors[0].embedding) - 1) < 1e-3, len(vectors))

# LangChain: structured output, and an agent's loop of call, result, answer.
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI


def chain(seed, tokens=120):
    return ChatOpenAI(base_url=url, api_key="none", model=model, max_tokens=tokens, seed=seed, max_retries=0, timeout=120)


def structured(seed):
    got = chain(seed).with_structured_output(Person, method="json_schema", include_raw=True).invoke("Ada was 36.")
    return got["parsed"]


claim(isinstance(made(structured), Person))


def loop(seed):
    asked = [HumanMessage("What is the weather in Oslo?")]
    said = chain(seed).bind_tools([Weather], tool_choice="required", parallel_tool_calls=False).invoke(asked)
    if not said.tool_calls:
        return None
    answers = [ToolMessage("rain", tool_call_id=c["id"]) for c in said.tool_calls]
    return chain(seed, 8).bind_tools([Weather], tool_choice="none").invoke(asked + [said] + answers)


claim(made(loop) is not None)

# LiteLLM.
import litellm

litellm.suppress_debug_info = True
got = litellm.completion(model="openai/" + model, api_base=url, api_key="none", messages=say, max_tokens=8, seed=1)
claim(got.choices[0].message.content is not None, got)


def lite(seed):
    got = litellm.completion(model="openai/" + model, api_base=url, api_key="none", messages=say, max_tokens=100, seed=seed, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    calls = got.choices[0].message.tool_calls if got.choices[0].finish_reason == "tool_calls" else None
    return Weather.model_validate_json(calls[0].function.arguments) if calls else None


claim(isinstance(made(lite), Weather))

# OpenAI's agents, over both of its ways to speak.
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool

called = []


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    called.append(city)
    return "rain in " + city


for way in (OpenAIChatCompletionsModel, OpenAIResponsesModel):

    def run(seed):
        speaks = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)  # one for each loop
        settings = ModelSettings(tool_choice="required", parallel_tool_calls=False, max_tokens=100, extra_body={"seed": seed})
        agent = Agent(name="a", instructions="Be brief.", model=way(model=model, openai_client=speaks), tools=[weather], model_settings=settings)
        before = len(called)

        async def once():
            try:
                return await Runner.run(agent, "Is it raining in Oslo?", max_turns=3)
            finally:
                await speaks.close()

        try:
            out = asyncio.run(once())
        except Exception as e:
            if "JSON" in str(e) or "Invalid" in str(e):  # arguments that max_tokens cut off
                return None
            raise
        return out.final_output if len(called) > before else None

    claim(made(run) is not None, way)
print("ok openai, langchain-openai, litellm, openai-agents")
