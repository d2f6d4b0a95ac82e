"""The architectures of exporter_networks.py, in tiny configurations: a name that begins with its library, and how it is made.

    net, inputs, loss = build("transformers/llama")   # seeded, without dropout; net(*inputs) is one tensor

A row is (maker, first argument, the others by name). The makers below say what the others are.
"""
import functools
import importlib

BATCH, LENGTH, WORDS = 4, 8, 64
NONE = object()  # the size is not given
# What the configurations of transformers call their sizes. A configuration ignores the names that it does not know.
SIZES = dict(
    vocab_size=WORDS, pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False, hidden_size=32, num_hidden_layers=2,
    num_attention_heads=4, intermediate_size=48, max_position_embeddings=32, num_labels=5, return_dict=True)
DECODER = SIZES | dict(num_key_value_heads=2, head_dim=8, tie_word_embeddings=False)
TWO = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
           decoder_ffn_dim=48, num_layers=2, d_ff=48, d_kv=8, num_heads=4, decoder_start_token_id=1, vocab_size=WORDS,
           pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False, max_position_embeddings=32)
IMAGE = SIZES | dict(image_size=32, patch_size=8)


def words(count=LENGTH, seed=1):
    import torch
    return torch.randint(3, WORDS, (BATCH, count), generator=torch.Generator().manual_seed(seed))


def noise(*shape, seed=2):
    import torch
    return torch.randn(BATCH, *shape, generator=torch.Generator().manual_seed(seed))


def from_config(model_type, auto, sizes, options):
    transformers = importlib.import_module("transformers")
    config = transformers.AutoConfig.for_model(model_type, **{k: v for k, v in (sizes | options).items() if v is not NONE})
    return getattr(transformers, auto).from_config(config, attn_implementation="eager")


def causal(model_type, **options):
    return from_config(model_type, "AutoModelForCausalLM", DECODER, options), {"input_ids": words()}, "cross_entropy"


def experts(model_type, **options):
    """As exporting needs them: all experts in one product."""
    transformers = importlib.import_module("transformers")
    few = dict(num_local_experts=4, num_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
    config = transformers.AutoConfig.for_model(model_type, **(DECODER | few | options))
    net = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="batched_mm")
    return net, {"input_ids": words()}, "cross_entropy"


def masked(model_type, **options):
    return from_config(model_type, "AutoModelForMaskedLM", SIZES, options), {"input_ids": words()}, "cross_entropy"


def classes(model_type, **options):
    return (from_config(model_type, "AutoModelForSequenceClassification", SIZES, options), {"input_ids": words()},
            "cross_entropy")


def pair(model_type, **options):
    net = from_config(model_type, "AutoModelForSeq2SeqLM", TWO, options)
    return net, {"input_ids": words(), "decoder_input_ids": words(6, 5)}, "cross_entropy"


def vision(model_type, size=32, auto="AutoModelForImageClassification", loss="cross_entropy", **options):
    net = from_config(model_type, auto, IMAGE | dict(image_size=size), options)
    return net, {"pixel_values": noise(3, size, size)}, loss


def audio(model_type, auto="AutoModel", **options):
    small = dict(conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, layerdrop=0.0,
                 num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, apply_spec_augment=False, mask_time_prob=0.0)
    return from_config(model_type, auto, SIZES | small, options), {"input_values": noise(320)}, "mse"


def heard(model_type, **options):
    net = from_config(model_type, "AutoModelForSpeechSeq2Seq", TWO, options)
    return net, {"input_features": noise(8, 16), "decoder_input_ids": words(6, 5)}, "cross_entropy"


def timm(name, size=64, **options):
    library = importlib.import_module("timm")
    return library.create_model(name, num_classes=5, **options), {"x": noise(3, size, size)}, "cross_entropy"


def torchvision(name, shape=(3, 64, 64), loss="cross_entropy", argument="x", **options):
    library = importlib.import_module("torchvision").models
    module, _, name = name.rpartition(".")
    place = getattr(library, module) if module else library
    return getattr(place, name)(num_classes=5, **options), {argument: noise(*shape)}, loss


def diffusers(name, inputs, **options):
    return getattr(importlib.import_module("diffusers"), name)(**options), inputs(), "mse"


def latent(channels=4, side=8, **more):
    import torch
    made = {"sample": noise(channels, side, side), "timestep": torch.tensor([3, 50, 400, 999])}
    return made | {name: noise(*shape, seed=7) for name, shape in more.items()}


def image(side=16):
    return {"sample": noise(3, side, side)}


def flow(**more):
    import torch
    made = {"hidden_states": noise(4, 8, 8), "timestep": torch.tensor([3, 50, 400, 999])}
    return made | {name: noise(*shape, seed=7) for name, shape in more.items()}


def noise_levels():
    """Times from 0 to 1. Some networks multiply them by 1000 and more before a sine, which leaves few digits of times up to 999."""
    import torch
    return torch.tensor([0.003, 0.05, 0.4, 0.999])


DOWN, UP = ("DownBlock2D", "AttnDownBlock2D"), ("AttnUpBlock2D", "UpBlock2D")
CROSS = dict(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), block_out_channels=(16, 32), layers_per_block=1,
             cross_attention_dim=16, attention_head_dim=8, norm_num_groups=8)
CODER = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(8, 16),
             norm_num_groups=4, latent_channels=4)
PLAIN = dict(num_attention_heads=4, attention_head_dim=8, num_layers=2, in_channels=4, sample_size=8, patch_size=2)
STAGES = dict(num_hidden_layers=NONE, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])

ROWS = [
    *((causal, name, {}) for name in (
        "gpt2 gpt_bigcode gpt_neox opt bloom llama mistral qwen2 qwen3 gemma gemma2 phi phi3 stablelm starcoder2 olmo "
        "olmo2 "
        "cohere cohere2 granite persimmon biogpt xglm ctrl openai-gpt glm glm4 nemotron smollm3 helium exaone4 "
        "ernie4_5 arcee seed_oss hunyuan_v1_dense apertus bitnet").split()),
    (causal, "gpt_neo", dict(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4)),
    (causal, "gptj", dict(rotary_dim=4)),
    (causal, "codegen", dict(rotary_dim=4)),
    (causal, "falcon", dict(head_dim=NONE)),
    (causal, "mpt", dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=32)),
    (causal, "gemma3_text", dict(sliding_window=4)),
    (causal, "mamba", dict(state_size=4)),
    (causal, "mamba2", dict(state_size=4, num_heads=8, n_groups=1, expand=2, chunk_size=4)),
    (causal, "recurrent_gemma", dict(lru_width=32, attention_window_size=4, num_key_value_heads=1, num_hidden_layers=3,
                                     block_types=["recurrent", "recurrent", "attention"], conv1d_width=4)),
    (causal, "rwkv", dict(attention_hidden_size=32)),
    (causal, "xlnet", dict(d_model=32, n_layer=2, n_head=4, d_inner=48, max_position_embeddings=NONE, head_dim=NONE)),
    (experts, "mixtral", {}),
    (experts, "qwen2_moe", dict(shared_expert_intermediate_size=24)),
    (experts, "qwen3_moe", {}),
    (experts, "olmoe", {}),
    (experts, "granitemoe", {}),
    (experts, "phimoe", {}),
    (experts, "gpt_oss", {}),
    (experts, "deepseek_v2", dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8,
        n_group=1,
                                  topk_group=1, first_k_dense_replace=1, num_key_value_heads=4)),
    (experts, "deepseek_v3", dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8,
        n_group=1,
                                  topk_group=1, first_k_dense_replace=1, num_key_value_heads=4, head_dim=4)),
    *((masked, name, {}) for name in (
        "bert roberta albert electra deberta deberta-v2 mpnet camembert xlm-roberta convbert fnet nystromformer "
        "roformer "
        "megatron-bert modernbert rembert ernie esm ibert layoutlm roberta-prelayernorm yoso").split()),
    (masked, "mobilebert", dict(embedding_size=32, intra_bottleneck_size=16)),
    (masked, "squeezebert", dict(embedding_size=32)),
    (masked, "distilbert", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48)),
    (masked, "xlm", dict(emb_dim=32, n_layers=2, n_heads=4)),
    (masked, "longformer", dict(attention_window=4)),
    (masked, "big_bird", dict(attention_type="original_full")),
    (classes, "bert", {}),
    (classes, "deberta-v2", dict(relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"],
        max_relative_positions=-1)),
    *((pair, name,
        {}) for name in "t5 mt5 umt5 bart mbart pegasus marian blenderbot blenderbot-small m2m_100 plbart".split()),
    (pair, "switch_transformers", dict(num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1)),
    (pair, "longt5", dict(local_radius=3, global_block_size=4)),
    (pair, "led", dict(attention_window=4, max_encoder_position_embeddings=32, max_decoder_position_embeddings=32)),
    *((vision, name, {}) for name in "vit dinov2 vit_msn data2vec-vision beit ijepa".split()),
    (vision, "swin", dict(num_attention_heads=NONE, num_hidden_layers=NONE, patch_size=4, embed_dim=16, depths=[1, 1],
        num_heads=[2, 4], window_size=4)),
    (vision, "swinv2", dict(num_attention_heads=NONE, num_hidden_layers=NONE, patch_size=4, embed_dim=16, depths=[1,
        1], num_heads=[2, 4], window_size=4)),
    (vision, "convnext", dict(STAGES, size=64)),
    (vision, "convnextv2", dict(STAGES, size=64)),
    (vision, "resnet", dict(STAGES, embedding_size=8, size=64)),
    (vision, "poolformer", dict(STAGES, size=64)),
    (vision, "segformer", dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4],
        size=64)),
    (vision, "pvt", dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], size=64)),
    (vision, "mobilenet_v1", dict(depth_multiplier=0.25, min_depth=8)),
    (vision, "mobilenet_v2", dict(depth_multiplier=0.25)),
    (vision, "efficientnet", dict(width_coefficient=0.25, depth_coefficient=0.1, hidden_dim=320)),
    (vision, "mobilevit", dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], size=64)),
    (vision, "focalnet", dict(patch_size=4, embed_dim=8, depths=[1, 1], hidden_sizes=[8, 16], focal_levels=[1, 1],
                              focal_windows=[3, 3])),
    (vision, "dinov2_with_registers", {}),
    (vision, "yolos", dict(image_size=[32, 32], num_detection_tokens=4, auto="AutoModel", loss="mse")),
    (vision, "detr", dict(auto="AutoModelForObjectDetection", loss="mse", size=64, d_model=32, encoder_layers=2,
                          decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                          decoder_ffn_dim=48, num_queries=6, use_timm_backbone=False, use_pretrained_backbone=False,
                          backbone=None, num_hidden_layers=NONE, backbone_config=dict(
                              model_type="resnet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                              out_features=["stage4"]))),
    (vision, "siglip_vision_model", dict(auto="AutoModel", loss="mse")),
    (vision, "clip_vision_model", dict(auto="AutoModel", loss="mse")),
    *((audio, name, {}) for name in "wav2vec2 hubert wavlm unispeech sew data2vec-audio".split()),
    (heard, "whisper", dict(num_mel_bins=8, max_source_positions=8, max_target_positions=16)),
    (heard, "speech_to_text", dict(input_feat_per_channel=16, conv_channels=16, max_source_positions=32,
        max_target_positions=16)),

    *((timm, name, {}) for name in (
        "resnet18 resnet50 mobilenetv3_small_050 efficientnet_b0 densenet121 ghostnet_100 lcnet_035 tinynet_e "
        "regnetx_002 regnety_002 "
        "repvgg_a0 mobileone_s0 fastvit_t8 hardcorenas_a mnasnet_small semnasnet_050 convnext_atto convnextv2_atto "
        "edgenext_xx_small "
        "mobilevit_xxs efficientvit_b0 repghostnet_050 poolformer_s12 pvt_v2_b0 ese_vovnet19b_dw "
        "dla34 res2net50_26w_4s resnest14d skresnet18 selecsls42 cspresnet50 rexnet_100 resnetv2_50 eca_nfnet_l0 "
        "hrnet_w18_small "
        "starnet_s1 mobilenetv4_conv_small repvit_m0_9 xception41 inception_next_atto").split()),
    *((timm, name, dict(img_size=64)) for name in (
        "vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 gmlp_s16_224 resmlp_12_224 cait_xxs24_224 "
        "xcit_nano_12_p16_224 "
        "eva02_tiny_patch14_224 vit_relpos_small_patch16_224 levit_128s convit_tiny efficientformerv2_s0").split()),
    (timm, "swin_tiny_patch4_window7_224", dict(img_size=64, window_size=4)),
    (timm, "inception_v3", dict(size=96)),
    (timm, "pit_ti_224", dict(img_size=64)),
    (timm, "twins_svt_small", dict(img_size=64)),
    (timm, "volo_d1_224", dict(img_size=64)),

    *((torchvision, name, {}) for name in (
        "resnet18 resnext50_32x4d squeezenet1_1 densenet121 shufflenet_v2_x0_5 mobilenet_v2 mobilenet_v3_small "
        "mnasnet0_5 efficientnet_b0 efficientnet_v2_s regnet_y_400mf convnext_tiny swin_t swin_v2_t").split()),
    (torchvision, "googlenet", dict(aux_logits=False, init_weights=False)),
    (torchvision, "inception_v3", dict(shape=(3, 96, 96), aux_logits=False, init_weights=False)),
    (torchvision, "VisionTransformer", dict(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=32,
        mlp_dim=48)),
    (torchvision, "maxvit.MaxVit", dict(input_size=(64, 64), partition_size=2, stem_channels=16, block_channels=[16,
        32],
                                        block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.0)),
    (torchvision, "segmentation.fcn_resnet50", dict(loss="mse", weights_backbone=None)),
    (torchvision, "segmentation.deeplabv3_mobilenet_v3_large", dict(loss="mse", weights_backbone=None)),
    (torchvision, "segmentation.lraspp_mobilenet_v3_large", dict(loss="mse", weights_backbone=None, argument="input")),
    (torchvision, "video.r3d_18", dict(shape=(3, 4, 32, 32))),
    (torchvision, "video.mc3_18", dict(shape=(3, 4, 32, 32))),
    (torchvision, "video.r2plus1d_18", dict(shape=(3, 4, 32, 32))),

    (diffusers, "UNet2DModel", dict(inputs=latent, sample_size=8, in_channels=4, out_channels=4,
        block_out_channels=(16, 32), norm_num_groups=8,
                                    layers_per_block=1, attention_head_dim=8, down_block_types=DOWN,
                                    up_block_types=UP)),
    (diffusers, "UNet2DConditionModel", dict(CROSS, inputs=lambda: latent(encoder_hidden_states=(5, 16)),
                                             sample_size=8, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))),
    (diffusers, "ControlNetModel", dict(CROSS, inputs=lambda: latent(encoder_hidden_states=(5, 16),
        controlnet_cond=(3, 64, 64)),
                                        conditioning_embedding_out_channels=(8, 16, 16, 16))),
    (diffusers, "UNet1DModel", dict(inputs=lambda: {"sample": noise(2, 64), "timestep": noise_levels()}, sample_size=64,
                                    block_out_channels=(16, 32), in_channels=2, out_channels=2, extra_in_channels=32,
                                    down_block_types=("DownBlock1DNoSkip", "DownBlock1D"),
                                    up_block_types=("UpBlock1D", "UpBlock1DNoSkip"))),
    (diffusers, "AutoencoderKL", dict(CODER, inputs=image)),
    (diffusers, "VQModel", dict(CODER, inputs=image, num_vq_embeddings=16)),
    (diffusers, "AutoencoderTiny", dict(inputs=image, encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
                                        num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1))),
    (diffusers, "AutoencoderDC", dict(
        inputs=image, latent_channels=4, attention_head_dim=8, encoder_block_types="ResBlock",
        decoder_block_types="ResBlock",
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), encoder_layers_per_block=(1, 1),
        decoder_layers_per_block=(1, 1), encoder_qkv_multiscales=((), ()), decoder_qkv_multiscales=((), ()))),
    (diffusers, "DiTTransformer2DModel", dict(PLAIN, num_embeds_ada_norm=1000, inputs=lambda: {
        "hidden_states": noise(4, 8, 8), "timestep": latent()["timestep"], "class_labels": words(1)[:, 0]})),
    (diffusers, "PixArtTransformer2DModel", dict(PLAIN, cross_attention_dim=32, caption_channels=16,
        use_additional_conditions=False,
                                                 inputs=lambda: flow(encoder_hidden_states=(5, 16)))),
    (diffusers, "SD3Transformer2DModel", dict(PLAIN, joint_attention_dim=16, caption_projection_dim=32,
        pooled_projection_dim=16, out_channels=4,
                                              inputs=lambda: flow(encoder_hidden_states=(5, 16),
                                              pooled_projections=(16,)))),
    (diffusers, "AuraFlowTransformer2DModel", dict(
        sample_size=8, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=16, caption_projection_dim=32, pos_embed_max_size=64,
        inputs=lambda: dict(flow(encoder_hidden_states=(5, 16)), timestep=noise_levels()))),
    (diffusers, "SanaTransformer2DModel", dict(
        PLAIN, patch_size=1, out_channels=4, num_cross_attention_heads=4, cross_attention_head_dim=8,
        cross_attention_dim=32,
        caption_channels=16, inputs=lambda: flow(encoder_hidden_states=(5, 16)))),
    (diffusers, "WanTransformer3DModel", dict(
        patch_size=(1, 2, 2), num_attention_heads=4, attention_head_dim=12, in_channels=4, out_channels=4,
        text_dim=16, freq_dim=32, ffn_dim=48,
        num_layers=2, inputs=lambda: dict(flow(encoder_hidden_states=(5, 16)), hidden_states=noise(4, 2, 8, 8)))),
    (diffusers, "PriorTransformer", dict(
        num_attention_heads=4, attention_head_dim=8, num_layers=2, embedding_dim=16, num_embeddings=5,
        additional_embeddings=4,
        inputs=lambda: dict(flow(proj_embedding=(16,), encoder_hidden_states=(5, 16)), hidden_states=noise(16)))),
    (diffusers, "UVit2DModel", dict(
        hidden_size=32, cond_embed_dim=16, micro_cond_encode_dim=4, micro_cond_embed_dim=20, encoder_hidden_size=16,
        vocab_size=63,
        codebook_size=32, in_channels=32, block_out_channels=32, num_res_blocks=1, block_num_heads=4,
        num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, sample_size=8, inputs=lambda: {
            "input_ids": words(64).view(BATCH, 8, 8) % 60, "encoder_hidden_states": noise(5, 16),
            "pooled_text_emb": noise(16),
            "micro_conds": noise(5)})),
]
ARCHITECTURES = {}
for maker, what, others in ROWS:
    library = maker.__name__ if maker in (timm, torchvision, diffusers) else "transformers"
    kind = ", classes" if maker is classes else ", experts" if maker is experts else ""
    ARCHITECTURES[f"{library}/{what}{kind}"] = functools.partial(maker, what, **others)


def without_chance(net):
    """No dropout, no dropped paths, no noise on routers: in PyTorch and Tessera they would draw different numbers."""
    import torch
    for module in net.modules():
        for name, value in list(vars(module).items()):
            chance = any(part in name for part in ("drop", "jitter")) or name == "p" and "rop" in type(module).__name__
            if isinstance(value, float) and chance or name == "p" and type(module).__name__ == "StochasticDepth":
                setattr(module, name, 0.0)
    for config in {id(c): c for m in net.modules() for c in [getattr(m, "config", None)] if c is not None}.values():
        for name, value in list(getattr(config, "__dict__", {}).items()):
            if isinstance(value, float) and ("drop" in name or "jitter" in name):
                setattr(config, name, 0.0)
    return net


def build(name):
    import torch

    def first(made):
        if isinstance(made, torch.Tensor):
            return made
        values = made if isinstance(made, (tuple, list)) else [made[k] for k in ("logits", "out") if k in made] or list(made.values())
        return first(values[0])

    class One(torch.nn.Module):
        def __init__(self, net, names):
            super().__init__()
            self.net, self.names = net, names

        def forward(self, *inputs):
            return first(self.net(**dict(zip(self.names, inputs))))

    torch.manual_seed(0)
    net, inputs, loss = ARCHITECTURES[name]()
    by_place = name.startswith(("timm", "torchvision"))
    one = torch.nn.Sequential(net) if by_place else One(net, list(inputs))
    if by_place and "segmentation" in name or name == "torchvision/googlenet":
        one = One(net, list(inputs))
    return without_chance(one), list(inputs.values()), loss
