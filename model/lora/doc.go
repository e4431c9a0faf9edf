// Package lora reads LoRA adapters as the PEFT library saves them: a folder with
// adapter_config.json and adapter_model.safetensors. An [Adapter] is checked, tensor by
// tensor, against the model that it is for; [Adapter.LoadBlock] puts what it adds to one
// block on a device, as an nn.LoRA.
//
// Folders are foreign bytes: sizes are limited before anything is allocated, and whatever
// would alter results and is not understood is refused by name: DoRA, biases, whole modules
// saved beside the adapter, embeddings and LM head (clients compute those), adapters that
// rewrite the base weights, pickles, and fields nobody here knows.
//
// The package does not train, does not merge adapters into weights, and does not compute:
// model/nn does. Which session uses which adapter is the server's business.
package lora
